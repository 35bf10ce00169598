package leaks

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	testcmp "github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// leakSession returns what recordLeaks has recorded, which several tests read, and when the leaked goroutines began to wait.
func leakSession(t testing.TB, o stream.Options) (*analyze.Samples, []uint64) {
	t.Helper()
	leaking.once.Do(func() { leaking.file, leaking.leaked = recordLeaks(t) })
	return analyzetest.SamplesOf(t, o, leaking.file), leaking.leaked
}

var leaking struct {
	once   sync.Once
	file   *reader.Reader
	leaked []uint64
}

const leakSeconds = 30

// recordLeaks records a leak of 50 a minute among 5,000 goroutines a second that end. Beside them:
// a pool that grows as fast, whose members work now and then; workers that begin and wait for good
// in the first seconds; a place where every hundredth wait does not end.
func recordLeaks(t testing.TB) (f *reader.Reader, began []uint64) {
	r := analyzetest.Record(t)
	rng := rand.New(rand.NewPCG(1, 2))
	id := uint64(100)
	created := func(at uint64, by string) uint64 {
		id++
		r.Goroutine(tachyon.Goroutine{ID: id, Parent: 1, CreatedBy: by, CreatedAt: by + ".go:7", First: at, Last: leakSeconds * analyzetest.OneSecond, FirstWeight: 100})
		return id
	}
	receive, send := tachyon.Frame{Func: "[chan receive]"}, tachyon.Frame{Func: "[chan send]"}
	sleep := tachyon.Frame{Func: "[sleep]"}
	type member struct {
		id, next uint64 // next: time of its next job, µs
	}
	var leaked, sometimes []uint64
	var pool []*member
	var early []uint64
	for at := uint64(100); at < leakSeconds*analyzetest.OneSecond; at += 1000 {
		tick := at / 1000
		if tick%1200 == 600 {
			leaked = append(leaked, created(at, "main.serve"))
			began = append(began, at-100)
		}
		if tick%1200 == 300 {
			pool = append(pool, &member{created(at, "main.grow"), at + rng.Uint64N(analyzetest.OneSecond)})
		}
		if tick < 3000 && tick%100 == 0 {
			early = append(early, created(at, "main.init"))
		}
		g := created(at, "main.handle")
		r.Add(g, at, analyzetest.Running, analyzetest.Place("main.parse", 3), analyzetest.Place("main.handle.func1", 9))
		if rng.IntN(20) == 0 && tick%8 == 0 && tick%1000 > 800 {
			r.Add(g, at+200, 0, send, analyzetest.Place("main.reply", 30), analyzetest.Place("main.handle.func1", 10))
			sometimes = append(sometimes, g)
		} else if rng.IntN(3) == 0 {
			r.Add(g, at+900, 0, send, analyzetest.Place("main.reply", 30), analyzetest.Place("main.handle.func1", 10))
		}
		if tick%20 != 0 { // waiting goroutines have their samples in turns
			continue
		}
		for _, g := range leaked {
			r.Add(g, at, 0, receive, analyzetest.Place("main.serve.func1", 21))
		}
		for _, g := range sometimes {
			r.Add(g, at, 0, send, analyzetest.Place("main.reply", 30), analyzetest.Place("main.handle.func1", 10))
		}
		for _, g := range early {
			r.Add(g, at, 0, sleep, analyzetest.Place("time.Sleep", 300), analyzetest.Place("main.idle", 50))
		}
		for _, m := range pool {
			if at >= m.next {
				m.next = at + uint64(rng.ExpFloat64()*3*analyzetest.OneSecond)
				r.Add(m.id, at, analyzetest.Running, analyzetest.Place("main.job", 77), analyzetest.Place("main.worker", 42))
				continue
			}
			r.Add(m.id, at, 0, receive, analyzetest.Place("main.worker", 41))
		}
	}
	return r.Finish(tachyon.Session{Source: "native", Markers: true}), began
}

// of describes a group.
func of(g Group) string {
	is := map[bool]string{true: "a suspect", false: "a group"}[g.Suspect]
	return fmt.Sprintf("%s, by %s at %s: %s in %s:%d, %d to %d, %d ran again, %d proven", is, g.CreatedBy, g.CreatedAt, g.Reason, g.Function, g.Line, g.Start, g.End, g.RanAgain, g.Proven)
}

func find(list []Group, function string) *Group {
	for i := range list {
		if list[i].Function == function {
			return &list[i]
		}
	}
	return nil
}

func TestLeaks(t *testing.T) {
	testenv.Again(t)
	s, leaked := leakSession(t, stream.Options{})
	l := testenv.Must(Find(s))
	g := find(l.Groups, "main.serve.func1")
	testenv.Same(t, "the leak", of(*g), fmt.Sprintf("a suspect, by main.serve at main.serve.go:7: chan receive in main.serve.func1:21, 0 to %d, 0 ran again, 0 proven", len(leaked)))
	testenv.Within(t, "a minute", g.PerMinute, 47.5, 52.5)
	testenv.Within(t, "at least", g.Low, 40, g.PerMinute)
	testenv.Same(t, "the age of the oldest", g.Oldest.Round(100*time.Millisecond), (time.Duration(leakSeconds*analyzetest.OneSecond-leaked[0]) * time.Microsecond).Round(100*time.Millisecond))
	// Most of the waits at this place end, but some never do.
	g = find(l.Groups, "main.reply")
	testenv.FailIf(t, g == nil || !g.Suspect || g.RanAgain < 1000 || g.Unstuck > 0, "few of the waits leak: %+v", g)
	pool := find(l.Groups, "main.worker")
	testenv.FailIf(t, pool == nil || math.Abs(pool.PerMinute-50) > 5 || pool.RanAgain < 10, "the pool is %+v", pool)
	for _, g := range l.Groups {
		testenv.FailIf(t, g.Suspect && g.Function != "main.serve.func1" && g.Function != "main.reply", "%s is a suspect: %+v", g.Function, g)
	}
	testenv.Same(t, "a group of workers that all began at the start", find(l.Groups, "main.idle") != nil, false)
}

// A wait that spans the files of a session is one wait. Goroutines that come back to a ticker and do not end are a suspect, those that end are none.
func TestLeaksOfFiles(t *testing.T) {
	var files []*reader.Reader
	const half = 10 * analyzetest.OneSecond
	for part := range uint64(2) {
		r := analyzetest.Record(t)
		for i := range uint64(20) {
			began := i * analyzetest.OneSecond
			r.Goroutine(tachyon.Goroutine{ID: 10 + i, CreatedBy: "main.serve", CreatedAt: "main.go:7", FirstWeight: 1000})
			r.Every(10_000, max(began, part*half)+1000, (part+1)*half, 10+i, 0, tachyon.Frame{Func: "[select]"}, analyzetest.Place("main.watch", 5))
			for id := 100 + 4*i; id < 104+4*i; id++ {
				r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "main.serve", CreatedAt: "main.go:8", FirstWeight: 1000})
				end := began + 12*analyzetest.OneSecond + id%2*half // one half of them end
				r.Every(100_000, max(began, part*half)+99_000, min((part+1)*half, end), id, tachyon.Moved, tachyon.Frame{Func: "[select]"}, analyzetest.Place("main.tick", 5+int32(id%2)))
			}
		}
		files = append(files, r.Finish(tachyon.Session{
			Source: "native", PID: 1, Part: int(part) + 1, Start: time.UnixMicro(analyzetest.Start + int64(part)*half), SessionStart: time.UnixMicro(analyzetest.Start),
		}))
	}
	for _, list := range [][]*reader.Reader{files, {files[1], files[0]}} {
		l := testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{}, list...)))
		testenv.Same(t, "the ticker", of(l.Groups[0]), "a suspect, by main.serve at main.go:8: select in main.tick:6, 1 to 40, 4160 ran again, 0 proven")
		testenv.Same(t, "the group", of(l.Groups[1]), "a suspect, by main.serve at main.go:7: select in main.watch:5, 1 to 20, 0 ran again, 0 proven")
		testenv.Same(t, "those that end", of(l.Groups[2]), "a group, by main.serve at main.go:8: select in main.tick:5, 1 to 24, 3456 ran again, 0 proven")
		testenv.Within(t, "the oldest", l.Groups[1].Oldest, 19*time.Second, 20*time.Second)
	}
}

// Groups of two processes are one if they were created and wait at the same place. Else both stay.
func TestAdd(t *testing.T) {
	group := Group{"main.serve", "main.go:7", "select", "", "main.watch", "watch.go", 5, 1, 2, 1, 3, 0.5, 4, 5, 6, 7, 9, 3, false, 8, []float64{1, 2, 3, 4}}
	for what, edit := range map[string]func(g *Group){
		"creator": func(g *Group) { g.CreatedBy = "x" }, "created at": func(g *Group) { g.CreatedAt = "x" }, "reason": func(g *Group) { g.Reason = "x" },
		"function": func(g *Group) { g.Function = "x" }, "file": func(g *Group) { g.File = "x" }, "line": func(g *Group) { g.Line = 6 },
	} {
		other := group
		edit(&other)
		l := &Leaks{Groups: []Group{group}}
		l.add(&Leaks{Groups: []Group{other}})
		testenv.Same(t, "another "+what, len(l.Groups), 2)
	}
	l := &Leaks{Goroutines: 10, Proven: 8, ProvenUnknown: "a", Groups: []Group{group}}
	group.Oldest, group.Suspect, group.Alive = 9, true, []float64{10, 20}
	l.add(&Leaks{Goroutines: 5, Asked: true, Proven: 1, ProvenUnknown: "b", Groups: []Group{group}})
	group = Group{"main.serve", "main.go:7", "select", "", "main.watch", "watch.go", 5, 2, 4, 2, 6, 1, 9, 10, 12, 14, 18, 6, true, 16, []float64{11, 12, 23, 24}}
	testenv.NoDiff(t, "", testcmp.Diff(&Leaks{Goroutines: 15, Asked: true, Proven: 9, ProvenUnknown: "a", Groups: []Group{group}}, l))
}

// Goroutines that rest have a sample each second, and all that live have one at the end. Those that came and went meanwhile
// live no more, also if nothing rests for so long that it says whether there was a look at the end, but they did not wait for long.
func TestLeaksAfterLastLook(t *testing.T) {
	for again, length := range map[tachyon.Status]uint64{0: 1_000_000, tachyon.Moved: 5_000} {
		r := analyzetest.Record(t)
		const end = 4 * analyzetest.OneSecond
		sleep := tachyon.Frame{Func: "[sleep]"}
		for id := range uint64(3) {
			r.Every(analyzetest.OneSecond, analyzetest.OneSecond, end, id+1, again, sleep, analyzetest.Place("main.rests", 50))
		}
		for at := uint64(100); at < end; at += 10_000 {
			id := 100 + at
			r.Goroutine(tachyon.Goroutine{ID: id, Parent: 1, CreatedBy: "main.ask", CreatedAt: "ask.go:7", First: at, FirstWeight: 100})
			r.Add(id, at, 0, sleep, analyzetest.Place("main.part", 7))
			r.Add(id, min(at+length, end), 0, sleep, analyzetest.Place("main.part", 7))
		}
		for id := uint64(10); id < 20; id++ { // waits that were long, and ended
			for _, at := range []uint64{100, analyzetest.OneSecond, 2_000_000, 3_900_000 - 20_000*id} {
				r.Add(id, at, 0, sleep, analyzetest.Place("main.long", 60))
			}
		}
		l := testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{Creators: true}, r.Finish(tachyon.Session{Source: "native", Markers: true}))))
		g := find(l.Groups, "main.part")
		testenv.FailIf(t, g != nil && uint64(g.End) > length/10_000+2, "%+v", g)
	}
}

// The slope of a line is that of its points, whatever the noise does with some of them.
func TestTheilSen(t *testing.T) {
	line := make([]float64, 100)
	for i := range line {
		line[i] = 3 + 0.5*float64(i)
		if i%9 == 0 {
			line[i] = 1000
		}
	}
	slope, low := theilSen(line)
	testenv.FailIf(t, math.Abs(slope-0.5) > 0.02 || low > slope || low < 0.3, "slope %v, at least %v", slope, low)
	rng := rand.New(rand.NewPCG(3, 4))
	grows := 0
	for range 200 {
		for i := range line {
			line[i] = rng.NormFloat64()
		}
		if _, low := theilSen(line); low > 0 {
			grows++
		}
	}
	testenv.FailIf(t, grows == 0 || grows > 12, "noise grows in %d of 200 trials", grows) // 2.5 % of 200 are 5
	step := slices.Concat(make([]float64, 50), slices.Repeat([]float64{10}, 50))
	_, low = theilSen(step)
	testenv.FailIf(t, low > 0, "a step grows by at least %v", low)
	slope, low = theilSen([]float64{1, 2, 3})
	testenv.Same(t, "of three values", [2]float64{slope, low}, [2]float64{})
}

// Bins keep their sum when their width doubles.
func TestSeries(t *testing.T) {
	c := clock{width: 1000}
	var s series
	for at := uint64(0); at < 10*analyzetest.OneSecond; at += 700 {
		c.cover(at + 700)
		s.add(&c, at, at+350)
	}
	c.cover(10 * analyzetest.OneSecond)
	for i, n := range s.average(&c, 10*analyzetest.OneSecond) {
		testenv.Within(t, fmt.Sprint("bin ", i), n, 0.49, 0.51)
	}
	testenv.Same(t, "the width", c.width, 128_000)
}

// Handlers that never return are leaked. The goroutines that read from their connections end with them.
func TestLeaksBackgroundRead(t *testing.T) {
	r := analyzetest.Record(t)
	for at := uint64(1000); at < 20*analyzetest.OneSecond; at += 20_000 {
		for i := range min(at/analyzetest.OneSecond, 15) {
			r.Add(100+i, at, 0, tachyon.Frame{Func: "[chan send]"}, analyzetest.Place("main.(*h).ServeHTTP", 3), analyzetest.Place("net/http.(*conn).serve", 9))
			r.Add(200+i, at, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("internal/poll.(*FD).Read", 3), analyzetest.Place("net/http.(*connReader).backgroundRead", 9))
			r.Add(300+i, at, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("bufio.(*Reader).Peek", 3), analyzetest.Place("net/http.(*conn).serve", 9))
		}
	}
	for i := range uint64(15) {
		for n, by := range []string{"net/http.(*Server).Serve", analyze.BackgroundRead, "net/http.(*Server).Serve"} {
			r.Goroutine(tachyon.Goroutine{ID: 100*uint64(n+1) + i, CreatedBy: by, CreatedAt: "server.go:7", First: (i + 1) * analyzetest.OneSecond, Last: 20 * analyzetest.OneSecond, FirstWeight: 1000})
		}
	}
	l := testenv.Must(Find(r.Close()))
	testenv.Same(t, "groups, suspects", fmt.Sprint(len(l.Groups), l.Groups[0].Suspect, l.Groups[1].Suspect), "2 true true")
	for _, g := range l.Groups {
		testenv.Same(t, g.Function, g.For, map[string]string{"chan send": "", "IO wait": "the next request"}[g.Reason])
	}
}

// The one suspect is the leak, with all of its goroutines.
func TestLeaksOfSession(t *testing.T) {
	for name, function := range map[string]string{"leaks": "main.leakyReply", "leaky-server": "main.leakedByRequest"} {
		s := analyzetest.OpenSession(t, "../testdata/sessions", name)
		leaked := cmp.Or(s.Truth.Leaked, len(s.Truth.Requests))
		for i, g := range testenv.Must(Find(s.Samples(t))).Groups {
			testenv.FailIf(t, g.Suspect != (i == 0) || g.Suspect != (g.Function == function), "%s: group %d is %+v", name, i, g)
			testenv.FailIf(t, i == 0 && (g.RanAgain != 0 || g.Reason != "chan receive" || g.End > leaked || g.End < leaked-4), "%s: %d goroutines leak: %+v", name, leaked, g)
		}
	}
}

// Whether a wait ends is known also if what comes after it is not selected.
func TestSelectLeaks(t *testing.T) {
	s, _ := leakSession(t, analyzetest.Selection(t, stream.Selection{States: []string{"chan receive"}}, "", ""))
	l := testenv.Must(Find(s))
	leak, pool := find(l.Groups, "main.serve.func1"), find(l.Groups, "main.worker")
	testenv.FailIf(t, leak == nil || !leak.Suspect || pool == nil || pool.Suspect || pool.RanAgain == 0 || find(l.Groups, "main.reply") != nil, "%+v, %+v", leak, pool)
}

// What the runtime has proved comes first, also if it does not grow.
func TestLeaksProven(t *testing.T) {
	at := func(function string, line int32) tachyon.LeakFrame {
		f := analyzetest.Place(function, line)
		return tachyon.LeakFrame{Func: f.Func, File: f.File, Line: f.Line}
	}
	wait := tachyon.Frame{Func: "[chan receive]"}
	found := func(sel *stream.Selection, session tachyon.Session) *Leaks {
		t.Helper()
		r := analyzetest.Record(t)
		for i := range uint64(20) {
			r.Goroutine(tachyon.Goroutine{ID: 10 + i, CreatedBy: "main.serve", CreatedAt: "main.go:7", FirstWeight: 1000})
			r.Goroutine(tachyon.Goroutine{ID: 50 + i, CreatedBy: "main.boot", CreatedAt: "main.go:8", FirstWeight: 1000})
			r.Every(10_000, i*analyzetest.OneSecond+1000, 20*analyzetest.OneSecond, 10+i, 0, wait, analyzetest.Place("main.watch", 5))
			r.Every(10_000, 1000, 20*analyzetest.OneSecond, 50+i, 0, wait, analyzetest.Place("main.stuck", 6))
		}
		session.Source, session.Markers = "native", true
		return testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{Select: sel, Unselected: true}, r.Finish(session))))
	}
	l := found(nil, tachyon.Session{Leaks: &tachyon.ProvenLeaks{Count: 23, Groups: []tachyon.ProvenLeak{
		{Count: 12, Frames: []tachyon.LeakFrame{at("sync.(*Cond).Wait", 70), at("main.stuck", 6), at("main.boot", 9)}},
		{Count: 8, Frames: []tachyon.LeakFrame{at("main.stuck", 6), at("main.other", 9)}},
		{Count: 3, Frames: []tachyon.LeakFrame{at("main.unseen", 9)}},
	}}})
	testenv.Same(t, "asked, proven, groups", fmt.Sprint(l.Asked, l.Proven, len(l.Groups)), "true 23 3")
	for i, want := range []string{
		"a group, by main.boot at main.go:8: chan receive in main.stuck:6, 20 to 20, 0 ran again, 20 proven",
		"a group, by  at :  in main.unseen:9, 0 to 0, 0 ran again, 3 proven",
		"a suspect, by main.serve at main.go:7: chan receive in main.watch:5, 1 to 20, 0 ran again, 0 proven",
	} {
		testenv.Same(t, i, of(l.Groups[i]), want)
	}
	// A group that grows gets its number.
	watch := &tachyon.ProvenLeaks{Count: 7, Groups: []tachyon.ProvenLeak{{Count: 7, Frames: []tachyon.LeakFrame{at("main.watch", 5)}}}}
	l = found(nil, tachyon.Session{Leaks: watch})
	testenv.Same(t, "groups", len(l.Groups), 1)
	testenv.Same(t, "a suspect", of(l.Groups[0]), "a suspect, by main.serve at main.go:7: chan receive in main.watch:5, 1 to 20, 0 ran again, 7 proven")
	l = found(&stream.Selection{Goroutines: []uint64{11}}, tachyon.Session{Leaks: watch})
	testenv.Same(t, "proven of a selection, asked", fmt.Sprint(l.Proven, l.Asked), "0 true")
	l = found(nil, tachyon.Session{Leaks: &tachyon.ProvenLeaks{Unavailable: "too old"}})
	testenv.Same(t, "unknown", l.ProvenUnknown+", "+l.Groups[0].Function, "too old, main.watch")
}
