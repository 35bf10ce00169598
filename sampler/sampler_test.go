package sampler_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a sink that keeps everything.
type memory struct {
	sampler.OnePart
	news
	ids     map[tachyon.Frame]uint32
	frames  []tachyon.Frame
	samples []tachyon.Sample
	write   func(n int) error // called before sample n is taken
}

func (m *memory) Intern(f tachyon.Frame) uint32 {
	if m.ids == nil {
		m.ids = make(map[tachyon.Frame]uint32)
	}
	id, ok := m.ids[f]
	if !ok {
		id = uint32(len(m.frames))
		m.ids[f] = id
		m.frames = append(m.frames, f)
	}
	return id
}

func (m *memory) WriteBatch(list []tachyon.Sample) (int, error) {
	for i, s := range list {
		if m.write != nil {
			if err := m.write(len(m.samples)); err != nil {
				return i, err
			}
		}
		s.Stack = slices.Clone(s.Stack)
		m.samples = append(m.samples, s)
	}
	return len(list), nil
}

func (m *memory) Forget(uint64, uint32) error { return nil }

// has reports whether the sample's stack has a function whose name ends in suffix.
func (m *memory) has(s *tachyon.Sample, suffix string) bool {
	return slices.ContainsFunc(s.Stack, func(id uint32) bool { return strings.HasSuffix(m.frames[id].Func, suffix) })
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition is still false after a minute")
		}
	}
}

func TestStartStop(t *testing.T) {
	waitFor(t, func() bool { return runtime.NumGoroutine() == 2 }) // the goroutines of other tests have ended
	var m memory
	begin := time.Now()
	s, err := sampler.Start(sampler.Config{Source: sampler.Portable, Budget: 100}, &m)
	if err != nil {
		t.Fatal(err)
	}
	stop, parked := make(chan bool), make(chan bool)
	go func() {
		parked <- true
		<-stop
		parked <- true
	}()
	<-parked
	waitFor(t, func() bool { return s.Stats().TicksReached >= 10 })
	close(stop)
	<-parked
	after := s.Stats().TicksReached
	waitFor(t, func() bool { return s.Stats().TicksReached > after+1 })
	if s.Part().Goroutines != nil || s.LeafPCs() != nil {
		t.Error("results before Stop")
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	written := len(m.samples)

	st := s.Stats()
	if st.Source != "portable" || st.Reason != "" || st.Rate != 1000 || st.Budget != 100 {
		t.Errorf("%+v", st)
	}
	if st.Samples != int64(written) || st.TicksReached > st.TicksAsked+1 || st.Dropped != 0 || st.Cost <= 0 || st.Cost > time.Duration(runtime.GOMAXPROCS(0)+1)*st.Duration {
		t.Errorf("%+v after %d samples", st, written)
	}
	if st.MaxGoroutines != 3 || st.Goroutines != 2 { // main, this test and the parked one
		t.Errorf("%d goroutines, at most %d", st.Goroutines, st.MaxGoroutines)
	}
	var session tachyon.Session
	st.Describe(&session)
	if session.TicksReached != st.TicksReached || session.RateReached <= 0 || session.RateReached > 1100 {
		t.Errorf("%+v", session)
	}

	gs := m.goroutines(s)
	if len(gs) != 3 || gs[0].ID != 1 || gs[0].CreatedBy != "" || gs[1].ID >= gs[2].ID {
		t.Fatalf("%+v", gs)
	}
	// Each P takes a batch of goroutine ids at a time. So a younger goroutine can have a lower id.
	test, parkedOne := gs[1], gs[2]
	if test.Parent == parkedOne.ID {
		test, parkedOne = parkedOne, test
	}
	if g := parkedOne; g.Parent != test.ID || !strings.HasSuffix(g.CreatedBy, "sampler_test.TestStartStop") || g.Last <= g.First || g.Last >= test.Last {
		t.Errorf("%+v beside %+v", g, test)
	}
	for i := range m.samples {
		p := &m.samples[i]
		if at := time.UnixMicro(int64(p.Time)); at.Before(begin.Add(-time.Millisecond)) || at.After(time.Now()) {
			t.Fatalf("a sample at %v, but the test began at %v", at, begin)
		}
		if p.Interpreter == tachyon.Process {
			continue
		}
		if p.Interpreter != 0 || (p.Status&tachyon.MainThread != 0) != (p.Thread == 1) {
			t.Fatalf("%+v", p)
		}
		for _, own := range []string{"portable.(*Source).run", "sampler.(*Sampler).watch"} {
			if m.has(p, own) {
				t.Fatalf("the profiler's own goroutine %s is in sample %d", own, i)
			}
		}
	}
	time.Sleep(5 * time.Millisecond)
	if len(m.samples) != written || s.Stats() != st {
		t.Error("sampling goes on after Stop")
	}
}

// TestStopTogether calls Stop and Stats from several goroutines at the same time.
func TestStopTogether(t *testing.T) {
	s, err := sampler.Start(sampler.Config{Source: sampler.Portable}, &count{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			if s.Part().End == 0 {
				t.Error("no part after Stop")
			}
		})
		all.Go(func() { s.Stats() })
	}
	all.Wait()
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  sampler.Config
		want string
	}{
		{sampler.Config{Rate: -1}, "rate -1"},
		{sampler.Config{Rate: sampler.MaxRate + 1}, "rate 10001"},
		{sampler.Config{Budget: -1}, "budget -1"},
		{sampler.Config{Budget: 101}, "budget 101"},
		{sampler.Config{Source: "natvie"}, `source "natvie"`},
	} {
		if _, err := sampler.Start(tt.cfg, &memory{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.cfg, err)
		}
	}
	if _, err := sampler.Start(sampler.Config{}, nil); err == nil {
		t.Error("no error without a sink")
	}
}

// TestSinkFails has a sink that fails. Sampling ends, and OnError is called once and may call Stop.
func TestSinkFails(t *testing.T) {
	full := errors.New("no space left")
	var m memory
	calls := 0
	m.write = func(n int) error {
		if n == 5 {
			calls++
			return full
		}
		return nil
	}
	var s *sampler.Sampler
	started := make(chan bool)
	heard := make(chan error, 10)
	s, err := sampler.Start(sampler.Config{Source: sampler.Portable, Budget: 100, OnError: func(err error) {
		<-started
		if again := s.Stop(); again != err {
			t.Errorf("Stop in OnError = %v, want %v", again, err)
		}
		heard <- err
	}}, &m)
	if err != nil {
		t.Fatal(err)
	}
	close(started)
	if err := <-heard; err != full {
		t.Errorf("OnError got %v", err)
	}
	if err := s.Stop(); err != full {
		t.Errorf("Stop = %v, want %v", err, full)
	}
	if len(m.samples) != 5 || calls != 1 || len(heard) != 0 || s.Stats().Samples != 5 {
		t.Errorf("%d samples, %d failed calls, %d more errors heard", len(m.samples), calls, len(heard))
	}
}

// TestSinkPanics has a sink that panics. That must not end the program.
func TestSinkPanics(t *testing.T) {
	var m memory
	m.write = func(n int) error { panic("a bug") }
	heard := make(chan error, 1)
	s, err := sampler.Start(sampler.Config{Source: sampler.Portable, OnError: func(err error) { heard <- err }}, &m)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-heard; !strings.Contains(err.Error(), "a bug") || s.Stop() != err {
		t.Errorf("OnError got %v, Stop = %v", err, s.Stop())
	}
}

// TestPaced samples many goroutines, first with a small budget, then with a MaxPause that allows no
// look.
func TestPaced(t *testing.T) {
	stop, parked := make(chan bool), make(chan bool)
	var ended sync.WaitGroup
	for range 2000 {
		ended.Go(func() {
			parked <- true
			<-stop
		})
		<-parked
	}
	s, err := sampler.Start(sampler.Config{Source: sampler.Portable, Budget: 0.5, MaxPause: time.Second}, &memory{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	s.Stop()
	warned := make(chan error, 10)
	short, err := sampler.Start(sampler.Config{Source: sampler.Portable, MaxPause: 100 * time.Microsecond, OnWarning: func(err error) { warned <- err }}, &memory{})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return short.Stats().TicksRefused > 10 })
	short.Stop()
	close(stop)
	ended.Wait()
	var told tachyon.Session
	short.Stats().Describe(&told)
	if told.TicksRefused < 10 || told.Blind <= 0 || told.Samples > 0 || len(warned) != 1 {
		t.Errorf("%+v, %d warnings", told, len(warned))
	}
	// A tick stops every core for more than 1 ms. The budget of 0.5 % is 1.5 ms of each core in 300 ms.
	if st := s.Stats(); st.TicksReached < 1 || st.TicksReached > 10 || st.TicksAsked < 290 || st.MaxGoroutines < 2000 {
		t.Errorf("%+v", st)
	}
}

// TestShares samples a goroutine that spends 40 % of its time in a loop, 40 % asleep and 20 % waiting
// for another. The weight of a sample is the time since the previous one.
func TestShares(t *testing.T) {
	var m memory
	s, err := sampler.Start(sampler.Config{Source: sampler.Portable, Budget: 100}, &m)
	if err != nil {
		t.Fatal(err)
	}
	var id uint64
	spent := make(map[string]time.Duration)
	done := make(chan bool)
	go func() {
		defer close(done)
		phase := func(name string, f func()) {
			t := time.Now()
			f()
			spent[name] += time.Since(t)
		}
		tick := make(chan bool)
		for range 4 {
			phase("loop", func() { loop(200 * time.Millisecond) })
			phase("[sleep]", func() { time.Sleep(200 * time.Millisecond) })
			time.AfterFunc(100*time.Millisecond, func() { tick <- true })
			phase("[chan receive]", func() { <-tick })
		}
	}()
	<-done
	s.Stop()
	for _, g := range m.goroutines(s) {
		if strings.HasSuffix(g.CreatedBy, "TestShares") {
			id = g.ID
		}
	}

	// The largest error is the sum of the gaps on both sides of each change of phase, of gaps in which a whole
	// phase may be hidden, of the time in which the goroutine waits for a core after a phase, and of the time
	// before the first sample and after the last one. That also holds on a busy machine, where ticks are late
	// and the last one can come long after the goroutine has ended.
	weight := make(map[string]time.Duration)
	var total, truth, last, doubt time.Duration
	var was string
	changed := false
	for i := range m.samples {
		p := &m.samples[i]
		if p.Thread != id {
			continue
		}
		at := time.Duration(p.Time) * time.Microsecond
		w := time.Millisecond
		if last != 0 {
			w = at - last
		}
		last = at
		total += w
		is := ""
		for name := range spent {
			if m.has(p, name) {
				is = name
				if running := p.Status&(tachyon.HasGIL|tachyon.GILRequested) != 0; running != (name == "loop") {
					t.Fatalf("%s with status %b", name, p.Status)
				}
			}
		}
		weight[is] += w
		if changed || is != was || is == "" || w > 100*time.Millisecond {
			doubt += w
		}
		changed = is != was
		was = is
	}
	for _, d := range spent {
		truth += d
	}
	doubt += (truth - total).Abs()
	within := 1 + 100*float64(doubt)/float64(total)
	for name, d := range spent {
		want := 100 * float64(d) / float64(truth)
		got := 100 * float64(weight[name]) / float64(total)
		t.Logf("%s: %.1f %%, was %.1f %%, in doubt %.1f", name, got, want, within)
		if got < want-within || got > want+within {
			t.Errorf("%s has %.1f %% of the time, want %.1f %% within %.1f", name, got, want, within)
		}
	}
}

//go:noinline
func loop(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}
