package requests

import (
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// What workers call for each job may be requests, but not what they call in assembly, such as a checksum, even if that takes longer.
func TestLikelyFunc(t *testing.T) {
	r := analyzetest.Record(t)
	worker := analyzetest.Place("main.worker", 5)
	sum := tachyon.Frame{File: "/home/u/app/sum_amd64.s", Func: "main.sum", Line: 3}
	for g := uint64(1); g <= 2; g++ {
		r.Goroutine(tachyon.Goroutine{ID: g, CreatedBy: "main.main", First: analyzetest.Start, Last: analyzetest.Start + analyzetest.OneSecond})
		for n := uint64(1); n < 1000; n++ {
			switch n % 100 {
			case 1:
				r.Add(g, n*1000, analyzetest.Running, analyzetest.Place("main.job", 30), worker)
			case 2, 3, 4:
				r.Add(g, n*1000, analyzetest.Running, sum, worker)
			default:
				r.Add(g, n*1000, 0, analyzetest.Wait("chan receive"), worker)
			}
		}
	}
	src := analyzetest.SamplesOf(t, stream.Options{Labels: true}, r.Finish(tachyon.Session{Source: "native", Markers: true})).Source
	idles := idle.New(src, nil)
	p := analyzetest.Must(profile.FromStream(src, profile.Detail{Key: func(s *stream.Sample) uint32 { return uint32(idles.Add(s)) }}))(t)
	idles.Finish()
	if got := LikelyFunc(p, idles); got != "main.job" {
		t.Errorf("%q", got)
	}
}
