package sampler

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestLive runs each source of this system. The samples have a goroutine that waits, with its creator, and
// none of the profiler's own.
func TestLive(t *testing.T) {
	sources := []string{Portable}
	if src, _ := nativeSource(); src != nil {
		sources = append(sources, Native)
	}
	for _, name := range sources {
		t.Run(name, func(t *testing.T) {
			end, parked := make(chan bool), make(chan bool)
			defer close(end)
			go func() { parked <- true; <-end }()
			<-parked
			var m memory
			before := time.Now().Add(-time.Millisecond)
			s := testenv.Must(Start(Config{Source: name, Budget: 100, MaxPause: time.Minute}, &m))
			testenv.Await(func() bool { return s.Stats().TicksReached > 0 })
			testenv.Same(t, "results before Stop", s.Part().End, 0)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					s.Stats()
					err := s.Stop()
					testenv.FailIf(t, err != nil || s.Part().End == 0, "no part after Stop: %v", err)
				})
			}
			all.Wait()
			st := s.Stats()
			testenv.Prints(t, "source, rate, budget, samples, reason", fmt.Sprintf("%s 1000 100 %d ", name, len(m.samples)), st.Source, st.Rate, st.Budget, st.Samples, st.SourceReason)
			testenv.Prints(t, "there are ticks, cost and goroutines, and they stay", "true true true true", st.TicksReached > 0, st.Cost > 0, st.MaxGoroutines > 1, st == s.Stats())
			found := uint64(0)
			for i := range m.samples {
				p := &m.samples[i]
				at := time.UnixMicro(int64(p.Time))
				testenv.StopIf(t, at.Before(before) || at.After(time.Now()), "a sample at %v, but the test began at %v", at, before)
				if m.has(p, "TestLive.func1.1") {
					found = p.Thread
				}
				testenv.StopIf(t, m.has(p, "(*Source).run") || m.has(p, "(*Sampler).watch"), "the profiler's own goroutine is in sample %d", i)
			}
			list := m.whole(s).goroutines()
			i := slices.IndexFunc(list, func(g tachyon.Goroutine) bool { return g.ID == found })
			testenv.Has(t, "creator", list[i].CreatedBy, "sampler.TestLive.func1")
		})
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"rate -1 is":                  {Rate: -1},
		"rate 10001 is":               {Rate: MaxRate + 1},
		"budget -1 is":                {Budget: -1},
		"budget 101 is":               {Budget: 101},
		"negative MaxPause: -1ns":     {MaxPause: -1},
		`source "natvie" is not auto`: {Source: "natvie"},
	} {
		testenv.Fails(t, want, testenv.Err(Start(cfg, &memory{})), want)
	}
	testenv.Fails(t, "no sink", testenv.Err(Start(Config{}, nil)), "no sink")
	// The sources' goroutines would belong to the bubble, and its time would not advance for them.
	synctest.Test(t, func(t *testing.T) { testenv.Is(t, "in a bubble", testenv.Err(Start(Config{}, &memory{})), ErrBubble) })
	testenv.OK(t, Allowed())
	for _, c := range []struct{ cfg, want Config }{
		{Config{}, Config{Rate: 1000, Budget: 1, MaxPause: 10 * time.Millisecond, Source: Auto}},
		{Config{Rate: 10_000, Budget: 100, MaxPause: 1, Source: Native}, Config{Rate: 10_000, Budget: 100, MaxPause: 1, Source: Native}},
	} {
		err := c.cfg.complete()
		testenv.FailIf(t, err != nil || c.cfg.Start.IsZero(), "%+v: %v", c.cfg, err)
		c.want.Start = c.cfg.Start
		equal(t, "configuration", c.cfg, c.want)
	}
}

func TestChoice(t *testing.T) {
	forbidden := errors.New("seccomp forbids timers")
	for _, tt := range []struct {
		source string
		refuse error // of the native source
		none   bool  // no native source in this build
		want   string
		reason string // also of an error
	}{
		{"", nil, false, Native, ""},
		{Auto, nil, false, Native, ""},
		{Auto, forbidden, false, Portable, "seccomp forbids timers"},
		{Auto, nil, true, Portable, "there is none for plan9"},
		{Native, nil, false, Native, ""},
		{Native, forbidden, false, "", "seccomp forbids timers"},
		{Native, nil, true, "", "there is none for plan9"},
		{Portable, nil, false, Portable, ""},
	} {
		nat, port := &scripted{name: Native, refuse: tt.refuse}, &scripted{name: Portable}
		native := nat.candidate
		if tt.none {
			native = noNative
		}
		s, err := start(Config{Source: tt.source}, &memory{}, native, port.candidate)
		if tt.want == "" {
			testenv.Fails(t, tt.source, err, tt.reason)
			testenv.Same(t, "starts of portable", port.starts, 0)
			continue
		}
		testenv.OK(t, err)
		s.Stop()
		testenv.Prints(t, tt, tt.want+" "+tt.reason, s.Stats().Source, s.Stats().SourceReason)
		testenv.FailIf(t, nat.starts != 0 && tt.source == Portable || nat.starts > 0 && nat.cfg.Fallback != (tt.source != Native), "%+v: native was tried with %+v, portable with %+v", tt, nat.cfg, port.cfg)
		testenv.Same(t, "goroutines of the source that failed", len(s.Part().Goroutines), 0)
	}
	for _, port := range []candidate{noNative, (&scripted{refuse: forbidden}).candidate} {
		testenv.Fails(t, "without any source", testenv.Err(start(Config{Source: Portable}, &memory{}, nil, port)), "the portable source cannot run: ")
	}
}

// TestFails has a source that fails and sinks that fail. Sampling ends. OnError is called once and may call Stop.
func TestFails(t *testing.T) {
	broken := errors.New("the timer is gone")
	for name, c := range map[string]struct {
		fail func(source.Out)
		want error
		kept int // samples that the sink has
	}{
		"source": {func(out source.Out) { out.Fail(broken) }, broken, 0},
		"sink":   {func(source.Out) {}, errFull, 5},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := &scripted{name: Native}, &memory{room: 5}
			heard := make(chan error, 10)
			var s *Sampler
			s, err := start(Config{OnError: func(err error) {
				testenv.Same(t, "Stop in OnError", s.Stop(), err)
				heard <- err
			}}, m, f.candidate, nil)
			testenv.OK(t, err)
			f.out.Batch(func() { c.fail(f.out) })
			for i := range 2 * maxBatch {
				f.out.Batch(func() { sample(f.out, source.Sample{Goroutine: 1, Time: time.Duration(i+1) * time.Second}) })
				f.out.Counted()
			}
			f.out.Fail(errors.New("a consequence"))
			testenv.Same(t, "OnError got", <-heard, c.want)
			testenv.Same(t, "Stop", s.Stop(), c.want)
			testenv.Prints(t, "stops, samples, counted, calls of OnError", fmt.Sprint(1, c.kept, c.kept, 0), f.stops, len(m.samples), s.Stats().Samples, len(heard))
			testenv.Within(t, "calls that failed", m.fails, 0, 1)
			testenv.Within(t, "the sink's latest progress", slices.Max(append(m.lengths(), 0)), 0, 10*time.Second)
		})
	}
	for _, method := range []string{"WriteRecords", "Forget"} {
		s, out := session(t, Config{}, &memory{refuse: method})
		out.Batch(func() {
			for id := range uint64(2) {
				sample(out, source.Sample{Goroutine: id + 1, Time: ms(float64(id) * 5000), Object: &source.Object{Object: tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex}}})
				out.Gone(id + 1)
			}
		})
		testenv.Same(t, method, s.Stop(), errFull)
	}
	s, out := session(t, Config{}, &memory{})
	out.Fail(nil)
	testenv.Same(t, "an error of Stop though the source fails without one", s.Stop() != nil, true)
}

// TestStops gives samples with stops to a session of two parts and to a follower. Each has all that came in its time, once, about a
// second at a time; also those of goroutines that have ended, and those with a sample that has no time left.
func TestStops(t *testing.T) {
	var m, second memory
	rec := newRecorder(&m, sessionStart, 1000)
	rec.stats = func() Stats { return Stats{} }
	s := &Sampler{out: rec, stopped: make(chan struct{}), src: &scripted{}}
	at := func(id uint64, t time.Duration, n uint32, more bool) {
		sample(rec, source.Sample{Goroutine: id, Time: t, Stops: source.Stops{N: n, AtLeast: more}})
	}
	rec.Batch(func() { at(7, ms(1), 0, false); at(5, ms(2), 3, false) })
	f := testenv.Must(s.Follow(&second, ms(600)))
	rec.Batch(func() { at(7, ms(500), 4, false); at(5, ms(501), 1, true); at(5, ms(501), 2, false) })
	rec.Batch(func() { at(9, ms(900), 0, false); at(9, ms(950), 6, false); rec.Gone(9) })
	rec.Batch(func() { at(7, ms(1100), 8, false) })
	rec.Batch(func() { at(7, ms(1200), 1, false) })
	rec.Batch(func() { at(7, ms(1300), 0, false) })
	first := rec.cut()
	rec.Batch(func() { at(5, ms(1400), 7, false) })
	stop := m.stops
	rec.Batch(func() { at(7, ms(2700), 0, false) })
	f.add(s.src.Look(), nil)
	rec.Batch(func() {})
	last := rec.cut()

	list := func(x ...tachyon.GoroutineStops) []tachyon.GoroutineStops { return x }
	equal(t, "the sink's", stop, []tachyon.Stops{{Until: 1_100_000, List: list(tachyon.GoroutineStops{ID: 5, N: 6, AtLeast: true},
		tachyon.GoroutineStops{ID: 7, N: 12}, tachyon.GoroutineStops{ID: 9, N: 6})}})
	equal(t, "the first part's", first.Stops, &tachyon.Stops{Until: 1_300_000, List: list(tachyon.GoroutineStops{ID: 7, N: 1})})
	equal(t, "the sink's in the second part", m.stops[len(stop):], []tachyon.Stops{{Until: 1_400_000, List: list(tachyon.GoroutineStops{ID: 5, N: 7})}})
	equal(t, "the second part's", last.Stops, (*tachyon.Stops)(nil))
	equal(t, "the follower's", second.stops, []tachyon.Stops{{Until: 2_100_000, List: list(tachyon.GoroutineStops{ID: 5, N: 7},
		tachyon.GoroutineStops{ID: 7, N: 9}, tachyon.GoroutineStops{ID: 9, N: 6})}})
	equal(t, "what is left for the follower's end", f.part.Stops, (*tachyon.Stops)(nil))
	testenv.OK(t, rec.err())
}
