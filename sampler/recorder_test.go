package sampler

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestSourcePlugsIn checks what the sink and the results get from a source's calls of Out.
func TestSourcePlugsIn(t *testing.T) {
	var m memory
	f := &scripted{name: Native}
	s := testenv.Must(start(Config{Rate: 250, Budget: 2, System: true, MaxPause: time.Second, Start: sessionStart}, &m, f.candidate, nil))
	out, c := f.out, f.cfg
	testenv.Prints(t, "configuration", "250 2 true true 1s true", c.Rate, c.Budget, c.System, c.WaitFrames, c.MaxPause, c.Start.Equal(sessionStart))
	out.Batch(func() {
		leaf := out.Frame(tachyon.Frame{Func: "main.leaf", File: "/a.go", Line: 3})
		root := out.Frame(tachyon.Frame{Func: "main.main", File: "/a.go", Line: 9})
		out.Goroutine(source.Goroutine{ID: 1})
		out.Goroutine(source.Goroutine{ID: 8, Parent: 1, CreatedBy: "main.main", CreatedAt: "/a.go:7"})
		out.Goroutine(source.Goroutine{ID: 3, CreatedBy: "runtime.gcenable"})
		out.Goroutine(source.Goroutine{ID: 10, CreatedBy: "main.main", Quiet: true}) // never sampled
		testenv.Same(t, "Out wants samples of the profiler's own goroutine", out.Goroutine(source.Goroutine{ID: 9, Parent: 1, CreatedBy: "github.com/gotach/profiler/internal/own.Go"}), false)
		out.Sample(&source.Sample{Goroutine: 1, Status: tachyon.OnCPU | tachyon.MainThread, Time: ms(1), Stack: []uint32{leaf, root}, Leaf: 0x40})
		out.Labels(8, ms(2), request("a"))
		out.Labels(8, ms(3), request("a")) // nothing new
		out.Labels(77, ms(3), request("a"))
		out.Sample(&source.Sample{Goroutine: 8, Time: ms(2), Stack: []uint32{root}, Leaf: 0x30})
		out.Sample(&source.Sample{Goroutine: 8, Time: ms(2) + 999, Leaf: 0x30}) // files have times in µs
		out.Sample(&source.Sample{Goroutine: 3, System: true, Time: ms(2.5), Stack: []uint32{leaf}, Leaf: 0x40})
		for i, by := range []string{"github.com/gotach/profiler.Open", "github.com/gotach/profiler/internal/own.Gone"} {
			id := uint64(30 + i)
			testenv.Same(t, by, out.Goroutine(source.Goroutine{ID: id, CreatedBy: by}), true)
			out.Sample(&source.Sample{Goroutine: id})
			out.Gone(id)
		}
		out.Sample(&source.Sample{Goroutine: tachyon.FirstPseudo, Process: true, Time: ms(3), Leaf: 0x50})
		out.Labels(8, ms(4), nil)
		out.Sample(&source.Sample{Goroutine: 8, Time: ms(5), Leaf: 0x20})
		out.Gone(8)
		out.Gone(8)
		out.Gone(77)
	})
	stop(t, s)
	testenv.Prints(t, "Stop again, starts and stops", "<nil> 1 1", s.Stop(), f.starts, f.stops)
	equal(t, "samples", m.samples, []tachyon.Sample{
		{Thread: 1, Status: tachyon.OnCPU | tachyon.MainThread, Time: us(ms(1)), Stack: []uint32{0, 1}},
		{Thread: 8, Time: us(ms(2)), Stack: []uint32{1}},
		{Thread: 3, Interpreter: tachyon.Runtime, Time: us(ms(2.5)), Stack: []uint32{0}},
		{Thread: 30, Time: us(0)},
		{Thread: 31, Time: us(0)},
		{Thread: tachyon.FirstPseudo, Interpreter: tachyon.Process, Time: us(ms(3))},
		{Thread: 8, Time: us(ms(5))},
	})
	equal(t, "goroutines", m.whole(s).goroutines(), []tachyon.Goroutine{
		{ID: 1, First: 1000, Last: 1000},
		{ID: 3, CreatedBy: "runtime.gcenable", First: 2500, Last: 2500},
		{ID: 8, Parent: 1, CreatedBy: "main.main", CreatedAt: "/a.go:7", First: 2000, Last: 5000, Labels: []tachyon.LabelSpan{
			{From: 2000, Labels: request("a")},
			{From: 4000, Labels: map[string]string{}},
		}},
		{ID: 30, CreatedBy: "github.com/gotach/profiler.Open"},
		{ID: 31, CreatedBy: "github.com/gotach/profiler/internal/own.Gone"},
	})
	equal(t, "leaf PCs", s.Part().PCs.PCs, []tachyon.LeafPC{
		{Addr: 0x20, Wall: 1, WallTime: 3000},
		{Addr: 0x30, Wall: 1, WallTime: 4000},
		{Addr: 0x40, CPU: 1, Wall: 2, CPUTime: 4000, WallTime: 8000},
		{Addr: 0x50, Wall: 1, WallTime: 4000},
	})
	st := s.Stats()
	st.Duration = 0
	equal(t, "stats", st, Stats{Rate: 250, Budget: 2, System: true, Progress: tachyon.Progress{Source: "native", Objects: tachyon.OnlyChannels, FarEndsUnknown: "why", Counts: tachyon.Counts{
		TicksAsked: 5, TicksReached: 4, Samples: 7, Dropped: 3, Torn: 2, Cost: time.Second, MaxGoroutines: 4,
	}}})
	var described tachyon.Session
	st.Describe(&described)
	equal(t, "description", described, tachyon.Session{Source: "native", Rate: 250, RateReached: 200, Budget: 2, System: true, Objects: tachyon.OnlyChannels, FarEndsUnknown: "why", Counts: st.Counts})
	Stats{}.Describe(&described)
	equal(t, "description of nothing", described, tachyon.Session{})
}

// TestFirstSample checks first samples that stand for more or less than one interval. Readers give a first
// sample the weight of one interval, so the recorder must write one more sample before it, or correct the
// next first sample.
func TestFirstSample(t *testing.T) {
	for name, c := range map[string]struct {
		odd    int       // 1: every second one is on the CPU
		gaps   []float64 // ms, of one goroutine after the other
		before []float64 // ms: how long before it the first of two samples is; 0: there is one; less: its weight is so much less than an interval
	}{
		"no gap, one interval": {0, []float64{0, 1}, []float64{0, 0}},
		"less than a half off": {0, []float64{1.499}, []float64{0}},
		"a half off":           {0, []float64{1.5}, []float64{0.5}},
		"three intervals":      {0, []float64{3}, []float64{2}},
		"the whole session":    {0, []float64{20}, []float64{19}},
		"more than that":       {0, []float64{200}, []float64{19}},
		"too little so far":    {0, []float64{1.25, 1.125, 1.125, 1.125}, []float64{0, 0, 0.5, 0}},
		"too much so far":      {0, []float64{0.5, 1.5, 2.25}, []float64{0, 0, 1.25}},
		"on the CPU apart":     {1, []float64{0.5, 1.5, 1.5, 2.25}, []float64{0, 0.5, 0, 1.25}},
		"far too much so far":  {0, []float64{0.1, 0.1, 0.2, 3, 0.0001}, []float64{0, -0.9, -0.8, 1.1, 0}},
	} {
		m, want, weights := memory{}, []tachyon.Sample(nil), [2]uint64{}
		s, out := session(t, Config{}, &m)
		out.Batch(func() {
			for i, gap := range c.gaps {
				id, status := uint64(i+1), tachyon.OnCPU*tachyon.Status(i%2*c.odd)
				sample(out, source.Sample{Goroutine: id, Status: status, Time: ms(20), Gap: ms(gap), Leaf: 1})
				if c.before[i] > 0 {
					want = append(want, tachyon.Sample{Thread: id, Status: status, Time: us(ms(20 - c.before[i]))})
				}
				want = append(want, tachyon.Sample{Thread: id, Status: status, Time: us(ms(20))})
			}
			sample(out, source.Sample{Goroutine: 1, Time: ms(50), Gap: ms(50), Leaf: 2})
			want = append(want, tachyon.Sample{Thread: 1, Time: us(ms(50))})
		})
		stop(t, s)
		equal(t, name, m.samples, want)
		for i, before := range c.before {
			w := uint64(math.Round(1000 + 1000*before))
			weights[i%2*c.odd] += w
			testenv.FailIf(t, before < 0 && s.Part().Goroutines[i].FirstWeight != w, "%s: the weight of %d is not in the metadata", name, i)
		}
		equal(t, name+": leaf PCs", s.Part().PCs.PCs, []tachyon.LeafPC{{Addr: 1, Wall: uint32(len(c.gaps)), CPU: uint32(len(c.gaps) / 2 * c.odd), WallTime: weights[0] + weights[1], CPUTime: weights[1]}, {Addr: 2, Wall: 1, WallTime: 30_000}})
	}
}

// TestComesAgain reports a goroutine again after its end, as happens with the runtime's finalizer goroutine.
func TestComesAgain(t *testing.T) {
	var m memory
	s, out := session(t, Config{}, &m)
	out.Batch(func() {
		for i, at := range []float64{1, 4, 6} {
			out.Goroutine(source.Goroutine{ID: 5, CreatedBy: "runtime.createfing"})
			if i != 1 { // the second time it has none
				out.Labels(5, ms(at), request("a"))
			}
			out.Sample(&source.Sample{Goroutine: 5, Time: ms(at)})
			out.Gone(5)
		}
	})
	stop(t, s)
	equal(t, "goroutines", m.whole(s).goroutines(), []tachyon.Goroutine{{ID: 5, CreatedBy: "runtime.createfing", First: 1000, Last: 6000, Labels: []tachyon.LabelSpan{
		{From: 1000, Labels: request("a")},
		{From: 4000, Labels: map[string]string{}},
		{From: 6000, Labels: request("a")},
	}}})
	testenv.Prints(t, "goroutines now and at most", "0 1", s.out.live.Load(), s.Stats().MaxGoroutines)
}

// TestNews checks when the sink gets what is known about goroutines: all of a short goroutine at once,
// a long one's creator and labels soon after they are known, and nothing twice.
func TestNews(t *testing.T) {
	var m memory
	s, out := session(t, Config{}, &m)
	at := func(id uint64, t float64) { sample(out, source.Sample{Goroutine: id, Time: ms(t)}) }
	goroutine := func(g tachyon.Goroutine) tachyon.Goroutine {
		g.Parent, g.CreatedBy = 1, "main.main"
		return g
	}
	for i, b := range []struct {
		what string
		do   func()
		told []tachyon.Goroutine
	}{
		{"too early", func() {
			out.Goroutine(source.Goroutine{ID: 7, Parent: 1, CreatedBy: "main.main"})
			out.Labels(7, ms(1), request("a"))
			at(7, 1)
			at(8, 2)
		}, nil},
		{"still too early", func() { at(8, 20); out.Gone(8); at(7, 40.999) }, nil},
		{"both, with both labels", func() { out.Labels(7, ms(42), request("b")); at(7, 42) }, []tachyon.Goroutine{
			goroutine(tachyon.Goroutine{ID: 7, First: 1000, Last: 42000, Labels: []tachyon.LabelSpan{{From: 1000, Labels: request("a")}, {From: 42000, Labels: request("b")}}}),
			goroutine(tachyon.Goroutine{ID: 8, First: 2000, Last: 20000}),
		}},
		{"nothing new", func() { at(7, 80) }, nil},
		{"too early again", func() { out.Labels(7, ms(100), nil); at(7, 100); at(9, 100) }, nil},
		{"labels of 7, and 9", func() { at(7, 150) }, []tachyon.Goroutine{
			{ID: 7, Last: 150000, Labels: []tachyon.LabelSpan{{From: 100000, Labels: map[string]string{}}}},
			goroutine(tachyon.Goroutine{ID: 9, First: 100000, Last: 100000}),
		}},
		{"the last of 7 when it ends, 9 is told, forgets 8", func() { at(7, 1000); out.Gone(7); out.Gone(9); at(10, 3000) }, []tachyon.Goroutine{
			{ID: 7, Last: 1000000},
		}},
		{"10", func() { out.Gone(10); at(11, 6000); out.Gone(11) }, []tachyon.Goroutine{
			goroutine(tachyon.Goroutine{ID: 10, First: 3000000, Last: 3000000}),
		}},
	} {
		m.parts = nil
		out.Batch(b.do)
		out.Counted()
		equal(t, fmt.Sprintf("batch %d, %s", i, b.what), m.parts, b.told)
	}
	equal(t, "forgotten", m.forgot, []uint64{8, 7, 9, 10})
	stop(t, s)
	equal(t, "the rest", s.Part().Goroutines, []tachyon.Goroutine{goroutine(tachyon.Goroutine{ID: 11, First: 6000000, Last: 6000000})})
	testenv.SameList(t, "lengths of the session", m.lengths(), []time.Duration{ms(40.999), ms(100), ms(150), ms(3000), ms(6000)})
	p := m.progress[0]
	testenv.Prints(t, "progress", "4 native 800 "+tachyon.OnlyChannels+" why", p.TicksReached, p.Source, p.RateReached, p.Objects, p.FarEndsUnknown)
}

// A pass of many samples goes to the sink in batches, and the session's progress within it.
func TestLongPass(t *testing.T) {
	var m memory
	s, out := session(t, Config{NoWaitFrames: true}, &m)
	testenv.Prints(t, "wait frames and objects", "false ", s.src.(*scripted).cfg.WaitFrames, s.Stats().Objects)
	out.Batch(func() {
		for i := range 2000 {
			sample(out, source.Sample{Goroutine: 7, Time: time.Duration(i+1) * 100 * time.Microsecond})
		}
		for i := range uint64(300) {
			sample(out, source.Sample{Goroutine: 100 + i, Time: ms(300)})
		}
	})
	stop(t, s)
	testenv.SameList(t, "lengths", m.lengths(), []time.Duration{ms(64), ms(115.2), ms(166.4), ms(300)})
	equal(t, "batches", m.batches, append(slices.Repeat([]int{128}, 17), 124))
}

// Each part of a session has the objects that its samples need, before these samples.
func TestObjectsOfParts(t *testing.T) {
	var m memory
	_, out := session(t, Config{}, &m)
	mutex := &source.Object{Object: tachyon.Object{Number: 2, Kind: tachyon.ObjectMutex}}
	channel := &source.Object{Object: tachyon.Object{Number: 1, Kind: tachyon.ObjectChannel}}
	set := &source.Object{Object: tachyon.Object{Number: 3, Kind: tachyon.ObjectSelect, Members: []int32{1}}, Of: []*source.Object{channel}}
	at := 0.0
	for i, pass := range []struct {
		kind, want string // kind is what the mutex is from then on
		full       bool
		objects    []*source.Object
	}{
		{tachyon.ObjectMutex, " sync.Mutex 2", false, []*source.Object{nil, mutex, mutex}},
		{tachyon.ObjectMutex, " chan 1 select 3", true, []*source.Object{mutex, set}}, // the part ends after the next one
		{tachyon.ObjectRWMutex, " sync.RWMutex 2", false, []*source.Object{mutex}},
		{tachyon.ObjectRWMutex, " chan 1 select 3", false, []*source.Object{set}},
		{tachyon.ObjectRWMutex, " sync.RWMutex 2", false, []*source.Object{channel, set, mutex}},
	} {
		mutex.Kind, m.full, m.objects = pass.kind, pass.full, nil
		out.Batch(func() {
			for _, o := range pass.objects {
				at++
				sample(out, source.Sample{Goroutine: 5, Time: ms(at), Object: o})
			}
		})
		got := ""
		for _, o := range m.objects {
			got += fmt.Sprint(" ", o.Kind, " ", o.Number)
		}
		testenv.Same(t, fmt.Sprint("objects of pass ", i), got, pass.want)
	}
}

// Of the runtime's goroutines the leaf addresses have only the CPU time, unless the session has System.
func TestLeafPCsOfMarkers(t *testing.T) {
	for _, system := range []bool{false, true} {
		s, out := session(t, Config{System: system}, &memory{})
		out.Batch(func() {
			for i := range 10 {
				at, status := ms(float64(i+1)), tachyon.Status(0)
				if i >= 6 {
					status = tachyon.OnCPU
				}
				sample(out, source.Sample{Goroutine: 7, Time: at, Leaf: 0x40})
				sample(out, source.Sample{Goroutine: 3, System: true, Status: status, Time: at, Leaf: 0x50})
				sample(out, source.Sample{Goroutine: 8, Time: at}) // the source does not know it
			}
		})
		stop(t, s)
		want := []tachyon.LeafPC{{Addr: 0x40, Wall: 10, WallTime: 10_000}, {Addr: 0x50, CPU: 4, Wall: 4, CPUTime: 4000, WallTime: 4000}}
		if system {
			want[1].Wall, want[1].WallTime = 10, 10_000
		}
		equal(t, fmt.Sprint("with System ", system), s.Part().PCs.PCs, want)
	}
}

// Samples that the sink does not take are counted, with their time, and sampling goes on. A second sink has them.
func TestUnwritten(t *testing.T) {
	var m, second memory
	s, out := session(t, Config{}, &m)
	f := testenv.Must(s.Follow(&second, 0))
	for i := range 30 {
		m.shut = i >= 10 && i < 20
		out.Batch(func() { sample(out, source.Sample{Goroutine: 1, Time: ms(float64(i + 1)), Leaf: 5}) })
	}
	stop(t, s)
	st, p := s.Stats(), s.Part()
	testenv.Prints(t, "error, samples, dropped, unwritten", "<nil> 20 13 10ms", s.out.err(), st.Samples, st.Dropped, st.Unwritten)
	testenv.Prints(t, "unwritten in the part, addresses", "10ms 1 20", p.Stats.Unwritten, len(p.PCs.PCs), p.PCs.PCs[0].Wall)
	p = testenv.Must(f.End())
	testenv.Prints(t, "samples, dropped, unwritten of the second sink", "30 0 0s", p.Stats.Samples, p.Stats.Dropped, p.Stats.Unwritten)
}
