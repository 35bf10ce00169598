package requests

import (
	"errors"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
)

// Slow are the slowest requests of a profile.
type Slow struct {
	Count, Of int           // of all requests that have ended
	From      time.Duration // length of the shortest
	What      string        // what a request is

	o     Options
	class []uint8 // by request
}

// FindSlow finds the slowest requests. It reads the samples once.
func FindSlow(s *analyze.Samples, o Options) (*Slow, error) {
	r, out, err := readRequests(s, &o)
	if err != nil {
		return nil, err
	}
	if out.Slow.Count == 0 {
		return nil, errors.New("no request has ended: " + out.What)
	}
	return &Slow{Count: out.Slow.Count, Of: out.Count, From: out.Slow.From, What: out.What, o: o, class: r.class}, nil
}

// Pick selects the samples of the slowest requests. It is for stream.Selection. The source must
// have the same files and select the same time.
func (r *Slow) Pick(src *stream.Source) func(*stream.Sample) (bool, error) {
	s := analyze.NewSamples("", src)
	f := newFinder(s, r.o)
	f.splits = false
	var x analyze.Sample
	return func(in *stream.Sample) (bool, error) {
		s.Set(&x, in)
		n, err := f.add(&x)
		return n >= 0 && int(n) < len(r.class) && r.class[n]&classSlow != 0, err
	}
}

// Ended are the requests of a profile that have ended, for a difference.
type Ended struct {
	Unknown bool     // their number is not known
	At      []uint64 // the last sample of each that has one, µs since the start
	Each    float64  // how many requests each of these stands for
	Took    float64  // time of all together, µs
}

// FindEnded finds when requests ended. It reads the samples once.
func FindEnded(s *analyze.Samples) (out Ended, err error) {
	f, err := readFinder(s, Options{})
	if err != nil {
		return out, err
	}
	list := f.lengths(false)
	if len(list) == 0 {
		return out, nil
	}
	n := f.rows(&Requests{})
	out.Unknown, out.Each = !n.Known(), float64(n.Count)/float64(len(list)) // with those that have no sample
	long := f.estimate(list).all / float64(len(list))
	for _, x := range list {
		out.At = append(out.At, x.last)
		out.Took += long * float64(x.length())
	}
	return out, nil
}
