package sampler_test

import (
	"errors"
	"fmt"
	"reflect"
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
	got := s.Goroutines()
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
		if len(s.Goroutines()) != 0 {
			t.Errorf("%+v: goroutines of the source that failed are left: %+v", tt, s.Goroutines())
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
	s, err := sampler.StartWith(sampler.Config{}, &memory{}, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.told
	s.Stop()
	want := []tachyon.Goroutine{{ID: 5, CreatedBy: "main.main", First: 1000, Last: 4000, Labels: []tachyon.LabelSpan{
		{From: 1000, Labels: map[string]string{"k": "v"}},
		{From: 4000, Labels: map[string]string{}},
	}}}
	if got := s.Goroutines(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if st := s.Stats(); st.Goroutines != 0 || st.MaxGoroutines != 1 {
		t.Errorf("%+v", st)
	}
}

// TestBounds has more ended goroutines and more label changes than the recorder keeps.
func TestBounds(t *testing.T) {
	const extra = 7
	set := func(i int) map[string]string { return map[string]string{"request": fmt.Sprint(i)} }
	f := &fake{name: "native", tell: func(out source.Out) {
		for i := range uint64(sampler.MaxEnded + extra) {
			out.Goroutine(source.Goroutine{ID: i + 1})
			out.Sample(&source.Sample{Goroutine: i + 1})
			out.Gone(i + 1)
		}
		// Each of these goroutines has too many label sets, and together they have too many.
		const first = sampler.MaxEnded + 1000
		owners := sampler.MaxSpans/sampler.MaxOwnerSpans + 3
		for o := range owners {
			id := uint64(first + o)
			out.Goroutine(source.Goroutine{ID: id})
			for i := range sampler.MaxOwnerSpans + extra {
				out.Labels(id, time.Duration(i)*time.Microsecond, set(i))
			}
			out.Sample(&source.Sample{Goroutine: id, Time: time.Second})
		}
	}}
	s, err := sampler.StartWith(sampler.Config{}, &count{}, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.told
	s.Stop()
	gs := s.Goroutines()
	st := s.Stats()
	if st.GoroutinesOmitted != extra || st.MaxGoroutines == 0 {
		t.Errorf("%+v", st)
	}
	spans, owners := 0, 0
	for _, g := range gs {
		n := len(g.Labels)
		if n > sampler.MaxOwnerSpans {
			t.Fatalf("goroutine %d has %d label spans", g.ID, n)
		}
		if n > 0 {
			owners++
			spans += n
			if last := g.Labels[n-1]; len(last.Labels) != 0 {
				t.Fatalf("the last label set of goroutine %d is not empty: %+v", g.ID, last)
			}
		}
	}
	if spans < sampler.MaxSpans || spans > sampler.MaxSpans+owners {
		t.Errorf("%d label spans of %d goroutines are kept", spans, owners)
	}
	if st.LabelsOmitted == 0 {
		t.Errorf("%+v", st)
	}
}

// count is a sink that keeps nothing.
type count struct {
	sampler.OnePart
	n int
}

func (c *count) Intern(tachyon.Frame) uint32 { return 0 }
func (c *count) Forget(uint64, uint32) error { return nil }

func (c *count) WriteBatch(list []tachyon.Sample) (int, error) {
	c.n += len(list)
	return len(list), nil
}
