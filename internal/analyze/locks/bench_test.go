package locks

import (
	"regexp"
	"testing"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// BenchmarkLocks reads a session in which goroutines wait for locks and hold others meanwhile.
func BenchmarkLocks(b *testing.B) {
	s := analyzetest.OpenSession(b, "../testdata/sessions", "nested")
	o := Options{Source: analyzetest.SourceOfSessions}
	for name, find := range map[string]func(*analyze.Samples) error{
		"locks": func(s *analyze.Samples) error { _, err := Find(s, o); return err },
		"waits": func(s *analyze.Samples) error {
			_, err := FindWaits(s, WaitOptions{Func: regexp.MustCompile(`^main\.`), Options: o})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testenv.OK(b, find(analyzetest.SamplesOf(b, stream.Options{Objects: true}, s.File)))
			}
		})
	}
}
