package analyze

import (
	"regexp"
	"testing"

	"github.com/gotach/profiler/internal/stream"
)

// BenchmarkLocks reads a session in which goroutines wait for locks and hold others meanwhile.
func BenchmarkLocks(b *testing.B) {
	s := openSession(b, "testdata/sessions", "nested")
	o := LockOptions{Source: sourceOfSessions}
	for name, find := range map[string]func(*Samples) error{
		"locks": func(s *Samples) error { _, err := FindLocks(s, o); return err },
		"waits": func(s *Samples) error {
			_, err := FindWaits(s, WaitOptions{Func: regexp.MustCompile(`^main\.`), LockOptions: o})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := find(samplesOf(b, stream.Options{Objects: true}, s.file)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
