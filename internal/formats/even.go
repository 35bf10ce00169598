package formats

import (
	"iter"

	"github.com/gotach/profiler/reader"
)

// mostEvenSamples bounds what even makes of a file: CPython's reader takes some
// ten seconds for as many.
const mostEvenSamples = 4 << 20

// even replaces samples, each of which stands for the time since its thread's
// previous one, by samples at even times, which all stand for the same: for
// readers that count samples and know nothing of weights. gotach's own files
// need it, since goroutines that wait are sampled less often than those that run.
//
// It returns the samples and their interval in µs: the file's own, or as
// much longer as keeps their number within mostEvenSamples.
func even(r *reader.Reader, samples func() iter.Seq2[*reader.Sample, error]) (iter.Seq2[*reader.Sample, error], uint64, error) {
	h := r.Header()
	var whole uint64
	m, err := r.Metadata()
	if err != nil {
		return nil, 0, err
	}
	for s, err := range weighed(h, m.FirstWeights(), samples()) {
		if err != nil {
			return nil, 0, err
		}
		whole += s.weight
	}
	interval := max(h.Interval, whole/mostEvenSamples+1)
	return func(yield func(*reader.Sample, error) bool) {
		var out reader.Sample
		for s, err := range weighed(h, m.FirstWeights(), samples()) {
			if err != nil {
				yield(nil, err)
				return
			}
			out = *s.Sample
			to := s.Time - h.Start
			for at := ((to-s.weight)/interval + 1) * interval; at <= to; at += interval {
				out.Time = h.Start + at
				if !yield(&out, nil) {
					return
				}
			}
		}
	}, interval, nil
}

type weighedSample struct {
	*reader.Sample
	weight uint64 // µs, no more than its time since the start
}

// weighed gives each sample its weight: the time since its thread's previous
// one, for the first an interval if first, which it uses up, has no other.
func weighed(h reader.Header, first map[uint64]uint64, samples iter.Seq2[*reader.Sample, error]) iter.Seq2[weighedSample, error] {
	return func(yield func(weighedSample, error) bool) {
		type thread struct {
			id     uint64
			interp uint32
		}
		last := map[thread]uint64{}
		for s, err := range samples {
			if err != nil {
				yield(weighedSample{}, err)
				return
			}
			if s.Time < h.Start {
				continue // before the session: no clock of ours
			}
			key := thread{s.Thread, s.Interpreter}
			before, ok := last[key]
			if !ok {
				weight, ok := first[s.Thread]
				if !ok {
					weight = h.Interval
				}
				delete(first, s.Thread)
				before = s.Time - min(weight, s.Time-h.Start)
			}
			weight := uint64(0)
			if s.Time > before {
				weight = s.Time - before
				last[key] = s.Time
			} else if !ok {
				last[key] = s.Time
			}
			if !yield(weighedSample{s, weight}, nil) {
				return
			}
		}
	}
}
