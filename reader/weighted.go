package reader

import (
	"iter"
	"math"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// A Stream is a profile with all its samples: a file (*[Reader]), several files joined, or
// the samples of another format. All methods may be called many times, and Samples starts
// from the beginning each time. The Stream owns the results; the caller must not change
// them.
type Stream interface {
	Header() tachyon.Header
	Frames() []tachyon.Frame // the elements of Sample.Stack are indices into it
	Metadata() (*tachyon.Metadata, error)
	// Samples yields all samples. The samples of one thread are in the order in which they
	// were taken. A sample is valid until the next one.
	Samples() iter.Seq2[*tachyon.Sample, error]
}

// A WeightedSample is a sample with its weight.
type WeightedSample struct {
	*tachyon.Sample
	Weight uint64 // µs
	// Index numbers the pairs of thread and interpreter from 0, in the order of
	// their first samples.
	Index int
	First bool // the first sample of its thread and interpreter
}

// Wall returns the weight as a Duration, or the longest Duration if the weight is
// longer.
func (s *WeightedSample) Wall() time.Duration { return Micros(s.Weight) }

// CPU returns the part of Wall that was on a CPU: all of it or nothing.
func (s *WeightedSample) CPU() time.Duration {
	if s.Status&tachyon.OnCPU == 0 {
		return 0
	}
	return s.Wall()
}

// Weighted yields all samples of a stream with their weights. No other code computes
// weights, so all views of a profile have the same sums.
//
// A sample's weight is the time since the previous sample of the same thread and
// interpreter. Times wrap modulo 2^64. The weight is 0 if the clock went back. The weight
// of a thread's first sample is in the metadata ([tachyon.Goroutine.FirstWeight]),
// otherwise it is one interval of the header. It is not reduced, even if it begins before
// the start in the header.
//
// The order of the samples and the errors are those of the stream's Samples. The yielded
// value is valid until the next iteration.
func Weighted(s Stream) iter.Seq2[*WeightedSample, error] {
	return func(yield func(*WeightedSample, error) bool) {
		m, err := s.Metadata()
		if err != nil {
			yield(nil, err)
			return
		}
		first, interval := m.FirstWeights(), s.Header().Interval
		known := newThreads(0, math.MaxUint32) // only ids and times are used
		known.budget = math.MaxInt64
		var out WeightedSample
		var th *thread
		for sample, err := range s.Samples() {
			if err != nil {
				yield(nil, err)
				return
			}
			out.Sample, out.First = sample, false
			if th == nil || !th.is(sample.Thread, sample.Interpreter) {
				before := len(known.list)
				if th, err = known.find(sample.Thread, sample.Interpreter, sample.Time); err != nil {
					yield(nil, err)
					return
				}
				out.Index, out.First = known.last, len(known.list) > before
			}
			if out.First {
				weight, ok := first[sample.Thread]
				if !ok {
					weight = interval
				}
				delete(first, sample.Thread) // a thread of another interpreter may have the same id
				out.Weight = weight
			} else {
				out.Weight = uint64(max(0, int64(sample.Time-th.time)))
			}
			th.time = sample.Time
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// Micros converts µs, the unit of times in a file, to a Duration. If us is too large, it
// returns the longest Duration in whole µs.
func Micros(us uint64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
}
