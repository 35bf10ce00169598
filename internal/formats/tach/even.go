package tach

import (
	"errors"
	"iter"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// mostEvenSamples bounds what even makes of a file: CPython's reader takes some
// ten seconds for as many.
const mostEvenSamples = 4 << 20

// longest bounds the times that even handles, in µs, so that no sum of them wraps.
const longest = 1 << 61

// even replaces samples, each of which stands for the time since its thread's
// previous one, by samples at even times, which all stand for the same: for
// readers that count samples and know nothing of weights. gotach's own files
// need it, since goroutines that wait are sampled less often than those that run.
//
// It returns an iterator over the samples, their start and their interval in µs. The
// interval is the file's own, or as much longer as keeps their number within
// mostEvenSamples. The start is the file's, or as much earlier as the first sample's
// weight reaches back. The samples of a thread lie end to end, so those of the runtime's
// goroutines, whose waits are left out, have earlier times than they had. They do not have Moved.
func even(src *stream.Source) (_ iter.Seq2[*stream.Sample, error], start, interval uint64, err error) {
	h := src.Header()
	var whole, early uint64
	for s, err := range src.Samples() {
		if err != nil {
			return nil, 0, 0, err
		}
		if s.Marker {
			continue
		}
		since, weight := int64(s.Time-h.Start), uint64(s.Wall.Microseconds())
		if whole += weight; whole > longest || since > longest || since < -longest {
			return nil, 0, 0, errors.New("the times of the samples are too far apart")
		}
		if since < int64(weight) {
			early = max(early, weight-uint64(since))
		}
	}
	interval = max(h.Interval, whole/mostEvenSamples+1)
	start = h.Start - early
	return func(yield func(*stream.Sample, error) bool) {
		var out stream.Sample
		ends := map[reader.Thread]uint64{} // where the weight of a thread's last sample ends, since start
		for s, err := range src.Samples() {
			if err != nil {
				yield(nil, err)
				return
			}
			if s.Marker {
				continue
			}
			t, weight := reader.Thread{ID: s.Goroutine, Interpreter: s.Interpreter}, uint64(s.Wall.Microseconds())
			from, ok := ends[t]
			if !ok {
				from = s.Time - start - weight
			}
			to := from + weight
			ends[t] = to
			out = *s
			out.Status &^= tachyon.Moved
			for at := (from/interval + 1) * interval; at <= to; at += interval {
				out.Time = start + at
				if !yield(&out, nil) {
					return
				}
			}
		}
	}, start, interval, nil
}

// evenGoroutine changes what is known of a goroutine for a file of even samples
// that begins so many µs earlier.
func evenGoroutine(g *tachyon.Goroutine, early uint64) {
	g.FirstWeight = 0 // each sample stands for one interval, the first ones too
	g.First, g.Last = g.First+early, g.Last+early
	for i := range g.Labels {
		g.Labels[i].From += early
	}
}
