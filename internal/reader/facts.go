package reader

import (
	"errors"
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

// Goroutines and objects can be most of a file, so streams may have methods like those of Reader with which they are
// read without all being in memory. The functions of this file call such a method of a stream.
// Otherwise they take what Metadata has.

// Overview returns the metadata of a stream, perhaps without goroutines and objects.
func Overview(s Stream) (*tachyon.Metadata, error) {
	if r, ok := s.(interface {
		Overview() (*tachyon.Metadata, error)
	}); ok {
		return r.Overview()
	}
	return s.Metadata()
}

// Goroutines yields the metadata of a stream's goroutines, as [Reader.Goroutines] does.
func Goroutines(s Stream) iter.Seq2[*tachyon.Goroutine, error] {
	if r, ok := s.(interface {
		Goroutines() iter.Seq2[*tachyon.Goroutine, error]
	}); ok {
		return r.Goroutines()
	}
	return func(yield func(*tachyon.Goroutine, error) bool) {
		m, err := s.Metadata()
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range m.Goroutines {
			if !yield(&m.Goroutines[i], nil) {
				return
			}
		}
	}
}

// FirstWeights returns the weights of goroutines' first samples, by ascending goroutine id. The caller may change
// the list.
func FirstWeights(s Stream) ([]FirstWeight, error) {
	if r, ok := s.(interface {
		FirstWeights() ([]FirstWeight, error)
	}); ok {
		return r.FirstWeights()
	}
	m, err := s.Metadata()
	if err != nil {
		return nil, err
	}
	var list []FirstWeight
	for id, weight := range m.FirstWeights() {
		list = append(list, FirstWeight{id, weight})
	}
	return sortWeights(list), nil
}

// Objects returns a stream's objects in the order of their numbers. It does not read the goroutines if that can be
// avoided.
func Objects(s Stream) ([]tachyon.Object, error) {
	r, ok := s.(interface {
		Objects() iter.Seq2[*tachyon.Object, error]
	})
	if !ok {
		m, err := s.Metadata()
		if err != nil {
			return nil, err
		}
		return m.Objects, nil
	}
	budget := int64(math.MaxInt64)
	if f, ok := s.(interface{ Size() int64 }); ok {
		budget = 32<<20 + 128*min(f.Size(), 1<<48)
	}
	var list []tachyon.Object
	for o, err := range r.Objects() {
		if budget -= 200; err == nil && budget < 0 {
			err = errors.New("too many objects for the size of the file")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, *o)
	}
	return latest(list), nil
}

// Micros converts µs, the unit of times in a file, to a Duration. If us is too large, it
// returns the longest Duration in whole µs.
func Micros(us uint64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
}
