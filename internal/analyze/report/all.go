package report

import (
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// All is the profile of all samples of a source, also of those that are idle or set apart. It knows
// which are.
type All struct {
	Profile *profile.Profile
	o       Options
	src     *stream.Source
	idle    *idle.Idle // nil: nothing is
	apart   *apart     // nil: nothing is
	places  *apart     // the number of places; it knows nothing else
}

// ReadAll adds up the samples of a source. It also calls each with every sample, with its key, and
// with the number of the place where it is: 0 if it is not a goroutine's.
func ReadAll(src *stream.Source, o Options, each func(s *stream.Sample, key idle.Key, place uint32)) (*All, error) {
	o = Options{Idle: true, Apart: true, Source: o.Source}
	a := &All{src: src, o: o, places: &apart{src: src}}
	tell := func(s *stream.Sample, key idle.Key) {
		if s.NotSeen || s.Interpreter != tachyon.User {
			each(s, key, 0)
			return
		}
		each(s, key, a.places.placeOf(s.Stack)+1)
	}
	var err error
	if src.Metadata().Session == nil {
		a.Profile, a.idle, err = newProfile(src, src.Samples(), o, tell)
	} else {
		a.Profile, a.idle, a.apart, err = withApart(src, src.Samples(), o, tell)
	}
	return a, err
}

// Kind tells, given the key of a sample and its place, whether the sample is idle time, whether its
// goroutine waits at one place in the whole session, and whether it is set apart.
func (a *All) Kind(key idle.Key, place uint32) (idle, rests, apart bool) {
	if a.idle != nil {
		idle, rests = a.idle.Is(key), a.idle.Rests(key)
	}
	return idle, rests, a.apart != nil && !idle && !rests && place > 0 && a.apart.of(a.places.places.List[place-1]) != NotApart
}

// Latency calls each with every sample that has a part of the latency, weighed with it.
func (a *All) Latency(each func(*stream.Sample, idle.Key)) error {
	samples, err := weighted(a.src, a.src.Samples(), Options{Weight: "latency", Source: a.o.Source}, a.idle, a.apart)
	if err != nil {
		return err
	}
	for s, err := range samples {
		if err != nil {
			return err
		}
		each(s, idle.NotIdle)
	}
	return nil
}
