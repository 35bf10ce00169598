package sampler_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// fake is a source whose calls of Out are those of tell.
type fake struct {
	name    string
	refuse  error
	tell    func(source.Out) // called in a new goroutine, as real sources do
	batches bool             // tell calls Batch
	cfg     source.Config
	told    chan bool
	starts  int
	stops   int
	started source.Out
}

func (f *fake) Name() string { return f.name }

func (f *fake) Start(cfg source.Config, out source.Out) error {
	f.starts++
	f.cfg, f.started = cfg, out
	f.told = make(chan bool)
	if f.refuse != nil {
		out.Goroutine(source.Goroutine{ID: 99})
		out.Batch(func() { out.Sample(&source.Sample{Goroutine: 99}) })
		return f.refuse
	}
	go func() {
		defer close(f.told)
		switch {
		case f.tell == nil:
		case f.batches:
			f.tell(out)
		default:
			out.Batch(func() { f.tell(out) })
		}
	}()
	return nil
}

func (f *fake) Stop() { f.stops++; <-f.told }

func (f *fake) Stats() tachyon.Counts {
	return tachyon.Counts{TicksAsked: 5, TicksReached: 4, Dropped: 3, Torn: 2, Cost: time.Second}
}

func native(f *fake) func() (source.Source, string) {
	return func() (source.Source, string) { return f, "" }
}

func noNative() (source.Source, string) { return nil, "there is none for plan9" }

// TestSourcePlugsIn checks what the sink and the results get from a source's calls of Out.
func TestSourcePlugsIn(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	f := &fake{name: "native", tell: func(out source.Out) {
		leaf := out.Frame(tachyon.Frame{Func: "main.leaf", File: "/a.go", Line: 3})
		root := out.Frame(tachyon.Frame{Func: "main.main", File: "/a.go", Line: 9})
		out.Goroutine(source.Goroutine{ID: 1})
		out.Goroutine(source.Goroutine{ID: 8, Parent: 1, CreatedBy: "main.main", CreatedAt: "/a.go:7"})
		out.Goroutine(source.Goroutine{ID: 3, CreatedBy: "runtime.gcenable"})
		out.Goroutine(source.Goroutine{ID: 10, CreatedBy: "main.main"}) // never sampled
		if out.Goroutine(source.Goroutine{ID: 9, Parent: 1, CreatedBy: "github.com/gotach/profiler/internal/own.Go"}) {
			t.Error("Out wants samples of the profiler's own goroutine")
		}
		out.Sample(&source.Sample{Goroutine: 1, Status: tachyon.OnCPU | tachyon.MainThread, Time: time.Millisecond, Stack: []uint32{leaf, root}, Leaf: 0x40})
		out.Labels(8, 2*time.Millisecond, map[string]string{"k": "v"})
		out.Labels(8, 3*time.Millisecond, map[string]string{"k": "v"}) // nothing new
		out.Sample(&source.Sample{Goroutine: 8, Time: 2 * time.Millisecond, Stack: []uint32{root}, Leaf: 0x30})
		out.Sample(&source.Sample{Goroutine: 3, System: true, Time: 2500 * time.Microsecond, Stack: []uint32{leaf}, Leaf: 0x40})
		for i, by := range []string{"github.com/gotach/profiler.Open", "github.com/gotach/profiler/internal/own.Gone", "github.com/gotach/profiler.TestX"} {
			id := uint64(30 + i)
			if !out.Goroutine(source.Goroutine{ID: id, CreatedBy: by}) {
				t.Errorf("Out wants no samples of a goroutine created by %s", by)
			}
			out.Sample(&source.Sample{Goroutine: id})
			out.Gone(id)
		}
		out.Labels(8, 4*time.Millisecond, nil)
		out.Sample(&source.Sample{Goroutine: 8, Time: 5 * time.Millisecond, Stack: nil, Leaf: 0x20})
		out.Gone(8)
		out.Gone(8)
		out.Gone(77)
	}}
	var m memory
	s, err := sampler.StartWith(sampler.Config{Rate: 250, Budget: 2, System: true, NoWaitFrames: true, Start: start}, &m, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.told
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	s.Stop()
	if f.starts != 1 || f.stops != 1 {
		t.Errorf("%d starts, %d stops", f.starts, f.stops)
	}
	if c := f.cfg; c.Rate != 250 || c.Budget != 2 || !c.System || c.WaitFrames || !c.Start.Equal(start) {
		t.Errorf("%+v", c)
	}
	want := []tachyon.Sample{
		{Thread: 1, Status: tachyon.OnCPU | tachyon.MainThread, Time: 1_700_000_000_001_000, Stack: []uint32{0, 1}},
		{Thread: 8, Time: 1_700_000_000_002_000, Stack: []uint32{1}},
		{Thread: 3, Interpreter: 1, Time: 1_700_000_000_002_500, Stack: []uint32{0}},
		{Thread: 30, Time: 1_700_000_000_000_000},
		{Thread: 31, Time: 1_700_000_000_000_000},
		{Thread: 32, Time: 1_700_000_000_000_000},
		{Thread: 8, Time: 1_700_000_000_005_000},
	}
	if !reflect.DeepEqual(m.samples, want) {
		t.Errorf("samples %+v\nwant %+v", m.samples, want)
	}
	wantGoroutines := []tachyon.Goroutine{
		{ID: 1, First: 1000, Last: 1000},
		{ID: 3, CreatedBy: "runtime.gcenable", First: 2500, Last: 2500},
		{ID: 8, Parent: 1, CreatedBy: "main.main", CreatedAt: "/a.go:7", First: 2000, Last: 5000, Labels: []tachyon.LabelSpan{
			{From: 2000, Labels: map[string]string{"k": "v"}},
			{From: 4000, Labels: map[string]string{}},
		}},
	}
	got := m.goroutines(s)
	if n := len(wantGoroutines); len(got) != n+3 || !reflect.DeepEqual(got[:n], wantGoroutines) {
		t.Errorf("goroutines %+v\nwant %+v", got, wantGoroutines)
	}
	wantPCs := &tachyon.LeafPCs{PCs: []tachyon.LeafPC{
		{Addr: 0x20, Wall: 1, WallTime: 3000},
		{Addr: 0x30, Wall: 1, WallTime: 4000},
		{Addr: 0x40, CPU: 1, Wall: 2, CPUTime: 4000, WallTime: 8000},
	}}
	if got := s.LeafPCs(); !reflect.DeepEqual(got, wantPCs) {
		t.Errorf("leaf PCs %+v, want %+v", got, wantPCs)
	}
	st := s.Stats()
	st.Duration = 0
	if want := (sampler.Stats{Source: "native", Rate: 250, Budget: 2, System: true, Goroutines: 3, Counts: tachyon.Counts{
		TicksAsked: 5, TicksReached: 4, Samples: 7, Dropped: 3, Torn: 2, Cost: time.Second, MaxGoroutines: 5,
	}}); st != want {
		t.Errorf("%+v\nwant %+v", st, want)
	}
}

func TestChoice(t *testing.T) {
	tests := []struct {
		source string
		refuse error // of the native source
		none   bool  // no native source in this build
		want   string
		reason string
		err    string
	}{
		{"", nil, false, "native", "", ""},
		{"auto", nil, false, "native", "", ""},
		{"auto", errors.New("seccomp forbids timers"), false, "portable", "seccomp forbids timers", ""},
		{"auto", nil, true, "portable", "there is none for plan9", ""},
		{"native", nil, false, "native", "", ""},
		{"native", errors.New("seccomp forbids timers"), false, "", "", "seccomp forbids timers"},
		{"native", nil, true, "", "", "there is none for plan9"},
		{"portable", nil, false, "portable", "", ""},
	}
	for _, tt := range tests {
		nat, port := &fake{name: "native", refuse: tt.refuse}, &fake{name: "portable"}
		makeNative := native(nat)
		if tt.none {
			makeNative = noNative
		}
		s, err := sampler.StartWith(sampler.Config{Source: tt.source}, &memory{}, makeNative, port)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || port.starts != 0 {
				t.Errorf("%+v: error %v, %d starts of portable", tt, err, port.starts)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		s.Stop()
		if st := s.Stats(); st.Source != tt.want || st.Reason != tt.reason {
			t.Errorf("%+v: source %s because %q", tt, st.Source, st.Reason)
		}
		if tt.source == "portable" && nat.starts != 0 {
			t.Errorf("%+v: native was tried", tt)
		}
		if list := s.Part().Goroutines; len(list) != 0 {
			t.Errorf("%+v: goroutines of the source that failed are left: %+v", tt, list)
		}
	}
}

func TestSourceFails(t *testing.T) {
	broken := errors.New("the timer is gone")
	f := &fake{name: "native", tell: func(out source.Out) {
		out.Fail(broken)
		out.Fail(errors.New("a consequence"))
		out.Goroutine(source.Goroutine{ID: 1})
		out.Sample(&source.Sample{Goroutine: 1})
	}}
	heard := make(chan error, 2)
	var m memory
	s, err := sampler.StartWith(sampler.Config{OnError: func(err error) { heard <- err }}, &m, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err != broken {
		t.Errorf("OnError got %v", err)
	}
	if err := s.Stop(); err != broken || f.stops != 1 || len(m.samples) != 0 || len(heard) != 0 {
		t.Errorf("%v, %d stops, %d samples", err, f.stops, len(m.samples))
	}
}

// TestFirstSample checks first samples that stand for more than one interval. Readers give a first
// sample the weight of one interval, so the recorder must write one more sample before it.
func TestFirstSample(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	for _, tt := range []struct {
		at, gap time.Duration
		want    []time.Duration // times of the samples
	}{
		{ms(20), 0, []time.Duration{ms(20)}},
		{ms(20), ms(1), []time.Duration{ms(20)}},
		{ms(20), ms(1.4), []time.Duration{ms(20)}},
		{ms(20), ms(3), []time.Duration{ms(18), ms(20)}},
		{ms(20), ms(20), []time.Duration{ms(1), ms(20)}},
		{ms(20), ms(200), []time.Duration{ms(1), ms(20)}}, // no sample is before the session
	} {
		f := &fake{name: "native", tell: func(out source.Out) {
			out.Goroutine(source.Goroutine{ID: 5, CreatedBy: "main.main"})
			out.Sample(&source.Sample{Goroutine: 5, Time: tt.at, Gap: tt.gap, Stack: []uint32{7}, Leaf: 1})
			out.Sample(&source.Sample{Goroutine: 5, Time: ms(50), Gap: ms(50), Stack: []uint32{8}, Leaf: 2})
		}}
		var m memory
		s, err := sampler.StartWith(sampler.Config{Start: start}, &m, native(f), nil)
		if err != nil {
			t.Fatal(err)
		}
		<-f.told
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		var want []tachyon.Sample
		for _, at := range tt.want {
			want = append(want, tachyon.Sample{Thread: 5, Time: uint64(start.Add(at).UnixMicro()), Stack: []uint32{7}})
		}
		want = append(want, tachyon.Sample{Thread: 5, Time: uint64(start.Add(ms(50)).UnixMicro()), Stack: []uint32{8}})
		if !reflect.DeepEqual(m.samples, want) {
			t.Errorf("gap of %v: samples %+v\nwant %+v", tt.gap, m.samples, want)
		}
		first := uint64((tt.at - tt.want[0] + ms(1)).Microseconds())
		wantPCs := []tachyon.LeafPC{{Addr: 1, Wall: 1, WallTime: first}, {Addr: 2, Wall: 1, WallTime: 30_000}}
		if got := s.LeafPCs().PCs; !reflect.DeepEqual(got, wantPCs) {
			t.Errorf("gap of %v: leaf PCs %+v, want %+v", tt.gap, got, wantPCs)
		}
	}
}

// TestShortGaps has first samples that stand for a little more or less than one interval. Most of them have one
// sample, and the sum is right.
func TestShortGaps(t *testing.T) {
	const goroutines = 1000
	random := rand.New(rand.NewPCG(1, 1))
	sum := time.Duration(0)
	f := &fake{name: "native", tell: func(out source.Out) {
		for id := uint64(1); id <= goroutines; id++ {
			gap := 500*time.Microsecond + time.Duration(random.Int64N(int64(1200*time.Microsecond)))
			sum += gap
			out.Goroutine(source.Goroutine{ID: id, CreatedBy: "main.main"})
			out.Sample(&source.Sample{Goroutine: id, Time: time.Second, Gap: gap, Stack: []uint32{7}})
		}
	}}
	var m memory
	s, err := sampler.StartWith(sampler.Config{}, &m, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.told
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	got, last := time.Duration(0), map[uint64]uint64{}
	for _, s := range m.samples {
		weight := uint64(1000) // µs
		if at, ok := last[s.Thread]; ok {
			weight = s.Time - at
		}
		last[s.Thread] = s.Time
		got += time.Duration(weight) * time.Microsecond
	}
	t.Logf("%d samples for %v, want %v", len(m.samples), got, sum)
	if got < sum-2*time.Millisecond || got > sum+2*time.Millisecond || len(last) != goroutines || len(m.samples) > goroutines*3/2 {
		t.Errorf("%d samples of %d goroutines stand for %v, want %v", len(m.samples), len(last), got, sum)
	}
}

// TestComesAgain reports a goroutine again after its end, as happens with the runtime's finalizer
// goroutine.
func TestComesAgain(t *testing.T) {
	f := &fake{name: "native", tell: func(out source.Out) {
		g := source.Goroutine{ID: 5, CreatedBy: "main.main"}
		out.Goroutine(g)
		out.Labels(5, time.Millisecond, map[string]string{"k": "v"})
		out.Sample(&source.Sample{Goroutine: 5, Time: time.Millisecond})
		out.Gone(5)
		out.Goroutine(g)
		out.Sample(&source.Sample{Goroutine: 5, Time: 4 * time.Millisecond})
		out.Gone(5)
	}}
	var m memory
	s, err := sampler.StartWith(sampler.Config{}, &m, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.told
	s.Stop()
	want := []tachyon.Goroutine{{ID: 5, CreatedBy: "main.main", First: 1000, Last: 4000, Labels: []tachyon.LabelSpan{
		{From: 1000, Labels: map[string]string{"k": "v"}},
		{From: 4000, Labels: map[string]string{}},
	}}}
	if got := m.goroutines(s); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if st := s.Stats(); st.Goroutines != 0 || st.MaxGoroutines != 1 {
		t.Errorf("%+v", st)
	}
}

// TestNews checks when the sink gets what is known about goroutines: all of a short goroutine at once,
// a long one's creator and labels soon after they are known, and nothing twice.
func TestNews(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	set := func(s string) map[string]string { return map[string]string{"request": s} }
	var m memory
	var stored [][]tachyon.Goroutine // what the sink had after each batch
	f := &fake{name: "native", batches: true, tell: func(out source.Out) {
		batch := func(f func()) {
			out.Batch(f)
			out.Counted()
			stored = append(stored, slices.Clone(m.parts))
		}
		sample := func(id uint64, at time.Duration) {
			out.Goroutine(source.Goroutine{ID: id, Parent: 1, CreatedBy: "main.main"})
			out.Sample(&source.Sample{Goroutine: id, Time: at})
		}
		batch(func() { // 0
			out.Goroutine(source.Goroutine{ID: 7, Parent: 1, CreatedBy: "main.main"})
			out.Labels(7, ms(1), set("a"))
			sample(7, ms(1))
			sample(8, ms(2))
		})
		batch(func() { sample(8, ms(20)); out.Gone(8); sample(7, ms(20)) })                   // 1: too early
		batch(func() { out.Labels(7, ms(45), set("b")); sample(7, ms(45)) })                  // 2: both, with both labels
		batch(func() { sample(7, ms(80)) })                                                   // 3: nothing new
		batch(func() { out.Labels(7, ms(100), nil); sample(7, ms(100)); sample(9, ms(100)) }) // 4: too early
		batch(func() { sample(7, ms(150)) })                                                  // 5: labels of 7, and 9
		batch(func() { out.Gone(7); out.Gone(9); sample(10, ms(3000)) })                      // 6: forgets 8
		batch(func() { out.Gone(10); sample(11, ms(6000)); out.Gone(11) })                    // 7: Last of 7; 9 is told; 10
	}}
	s, err := sampler.StartWith(sampler.Config{}, &m, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.told
	s.Stop()
	none := map[string]string{}
	want := []tachyon.Goroutine{
		{ID: 7, Parent: 1, CreatedBy: "main.main", First: 1000, Last: 45000, Labels: []tachyon.LabelSpan{{From: 1000, Labels: set("a")}, {From: 45000, Labels: set("b")}}},
		{ID: 8, Parent: 1, CreatedBy: "main.main", First: 2000, Last: 20000},
		{ID: 7, Last: 150000, Labels: []tachyon.LabelSpan{{From: 100000, Labels: none}}},
		{ID: 9, Parent: 1, CreatedBy: "main.main", First: 100000, Last: 100000},
		{ID: 10, Parent: 1, CreatedBy: "main.main", First: 3000000, Last: 3000000},
	}
	for i, n := range []int{0, 0, 2, 2, 2, 4, 4, 5} {
		if !reflect.DeepEqual(stored[i], want[:n]) && (n > 0 || len(stored[i]) > 0) {
			t.Errorf("after batch %d the sink has %+v\nwant %+v", i, stored[i], want[:n])
		}
	}
	if rest := s.Part().Goroutines; len(rest) != 1 || rest[0].ID != 11 || rest[0].CreatedBy == "" {
		t.Errorf("the last part has %+v", rest)
	}
	if n := len(m.progress); n != 5 || m.progress[0].Duration != ms(45) || m.progress[0].TicksReached != 4 || m.progress[4].Duration != ms(6000) || m.progress[4].Source != "native" {
		t.Errorf("%d times of progress: %+v", n, m.progress)
	}
}

// count is a sink that keeps nothing.
type count struct {
	sampler.OnePart
	news
	n int
}

func (c *count) Intern(tachyon.Frame) uint32 { return 0 }
func (c *count) Forget(uint64, uint32) error { return nil }

func (c *count) WriteBatch(list []tachyon.Sample) (int, error) {
	c.n += len(list)
	return len(list), nil
}
