package reader

import (
	"errors"
	"iter"
	"math"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// A Stream is the samples of a profile, with what is known of them: a file (*[Reader]), or a part
// of one. Goroutines and objects can be most of a file, so they are read one by one. All methods
// may be called many times, and what they yield begins anew each time. The Stream owns the results,
// and the caller must not change them.
type Stream interface {
	Header() tachyon.Header
	Frames() []tachyon.Frame              // the frames of stacks are indices into it
	Overview() (*tachyon.Metadata, error) // at least without goroutines and objects
	FirstWeights() ([]FirstWeight, error) // of goroutines' first samples, by ascending goroutine id; the caller may change the list
	Goroutines() iter.Seq2[*tachyon.Goroutine, error]
	Objects() iter.Seq2[*tachyon.Object, error]
	Stops() iter.Seq2[*tachyon.Stops, error]
	Batches(get func() *Batch, latest uint64) iter.Seq2[*Batch, error] // all samples
	Size() int64                                                       // bytes of the file, which bound what it can have
	Compact()                                                          // frees what can be read again
}

// ListObjects returns a stream's objects in the order of their numbers.
func ListObjects(s Stream) ([]tachyon.Object, error) {
	budget := 32<<20 + 128*min(s.Size(), 1<<48)
	var list []tachyon.Object
	for o, err := range s.Objects() {
		if budget -= 200; err == nil && budget < 0 {
			err = errors.New("too many objects for the size of the file")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, *o)
	}
	return lastOfEach(list, func(o tachyon.Object) int32 { return o.Number }), nil
}

// Micros converts µs, the unit of times in a file, to a Duration. If us is too large, it
// returns the longest Duration in whole µs.
func Micros(us uint64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
}

// IsObject reports whether a frame's line is the number of an object; see [tachyon.Object].
func IsObject(f *tachyon.Frame) bool {
	n := len(f.Func)
	return f.File == "" && f.Line > 0 && n > 2 && f.Func[0] == '[' && f.Func[n-1] == ']'
}
