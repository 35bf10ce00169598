package analyze

import (
	"errors"
	"time"

	"github.com/gotach/profiler/internal/stream"
)

// SlowRequests are the slowest requests of a profile.
type SlowRequests struct {
	Count, Of int           // of all requests that have ended
	From      time.Duration // length of the shortest
	What      string        // what a request is

	o     RequestOptions
	class []uint8 // by request
}

// FindSlowRequests finds the slowest requests. It reads the samples once.
func FindSlowRequests(s *Samples, o RequestOptions) (*SlowRequests, error) {
	r, out, err := readRequests(s, &o)
	if err != nil {
		return nil, err
	}
	if out.Slow.Count == 0 {
		return nil, errors.New("no request has ended: " + out.What)
	}
	return &SlowRequests{Count: out.Slow.Count, Of: out.Count, From: out.Slow.From, What: out.What, o: o, class: r.class}, nil
}

// Pick selects the samples of the slowest requests. It is for stream.Selection. The source must have the same files
// and select the same time.
func (r *SlowRequests) Pick(src *stream.Source) func(*stream.Sample) (bool, error) {
	s := NewSamples("", src)
	f := newFinder(s, r.o)
	f.splits = false
	var x sample
	return func(in *stream.Sample) (bool, error) {
		s.set(&x, in)
		n, err := f.add(&x)
		return n >= 0 && int(n) < len(r.class) && r.class[n]&classSlow != 0, err
	}
}
