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
	// their first samples here.
	Index int
	First bool // the first sample here of its thread and interpreter
	// Marker says that the sample stands for no time. Only WithMarkers yields such samples.
	Marker bool
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

// Weighted yields the samples of a stream that stand for time, with their weights
// ([BatchSample.Weight]). It leaves out markers ([tachyon.Session.Marker]).
//
// Some time has no sample. It is in the session's counts, as [tachyon.Counts.NotSeen].
//
// The order of the samples and the errors are those of the stream's Samples. The yielded
// value is valid until the next iteration.
func Weighted(s Stream) iter.Seq2[*WeightedSample, error] { return weighted(s, false) }

// WithMarkers is Weighted, but yields the markers too. A marker's weight is the time since
// the thread's previous sample, for which it does not stand.
func WithMarkers(s Stream) iter.Seq2[*WeightedSample, error] { return weighted(s, true) }

func weighted(s Stream, markers bool) iter.Seq2[*WeightedSample, error] {
	return func(yield func(*WeightedSample, error) bool) {
		m, err := Overview(s)
		if err != nil {
			yield(nil, err)
			return
		}
		first, err := FirstWeights(s)
		if err != nil {
			yield(nil, err)
			return
		}
		interval := s.Header().Interval
		leaveOut := m.Session != nil && m.Session.Markers && !markers
		var out WeightedSample
		var index []int // if markers are left out: by thread, 0: nothing yielded, else Index + 1
		yielded := 0
		for x, err := range listed(s) {
			if err != nil {
				yield(nil, err)
				return
			}
			said := uint64(0)
			if x.first {
				said, _ = TakeWeight(first, x.Thread)
			}
			out.Sample, out.First, out.Index = &x.Sample, x.first, int(x.thread)
			out.Weight = (&BatchSample{Since: x.since, First: x.first}).Weight(said, interval)
			out.Marker = m.Session.Marker(x.Interpreter, x.Status)
			if leaveOut {
				if x.first {
					index = append(index, 0)
				}
				if out.Marker {
					continue
				}
				at := &index[x.thread]
				if out.First = *at == 0; out.First {
					yielded++
					*at = yielded
				}
				out.Index = *at - 1
			}
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
