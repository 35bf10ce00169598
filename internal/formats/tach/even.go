package tach

import (
	"errors"
	"iter"

	"github.com/gotach/profiler/internal/reader"
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
func even(s reader.Stream) (_ iter.Seq2[*tachyon.Sample, error], start, interval uint64, err error) {
	h := s.Header()
	var whole, early uint64
	for s, err := range reader.Weighted(s) {
		if err != nil {
			return nil, 0, 0, err
		}
		since := int64(s.Time - h.Start)
		if whole += s.Weight; s.Weight > longest || whole > longest || s.First && (since > longest || since < -longest) {
			return nil, 0, 0, errors.New("the times of the samples are too far apart")
		}
		if s.First && since < int64(s.Weight) {
			early = max(early, s.Weight-uint64(since))
		}
	}
	interval = max(h.Interval, whole/mostEvenSamples+1)
	start = h.Start - early
	return func(yield func(*tachyon.Sample, error) bool) {
		var out tachyon.Sample
		var ends []uint64 // by thread, where its last sample's weight ends, since start
		for s, err := range reader.Weighted(s) {
			if err != nil {
				yield(nil, err)
				return
			}
			if s.First {
				ends = append(ends, s.Time-start-s.Weight)
			}
			from := ends[s.Index]
			to := from + s.Weight
			ends[s.Index] = to
			out = *s.Sample
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
