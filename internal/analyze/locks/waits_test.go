package locks

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// waits returns the waits in a recording.
func (s *stepper) waits(o WaitOptions, objects ...tachyon.Object) *Waits {
	s.T.Helper()
	s.Objects = objects
	f := s.Finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	if o.Source == nil {
		o.Source = readHolderText
	}
	return testenv.Must(FindWaits(analyzetest.SamplesOf(s.T, stream.Options{Objects: true}, f), o))
}

// checkChain follows the first nodes and compares each with "role state function", and the last one's time.
func checkChain(t *testing.T, w *Waits, ms int, want ...string) *WaitNode {
	t.Helper()
	list := w.Chains
	var n *WaitNode
	for i, text := range want {
		testenv.StopIf(t, len(list) == 0, "nothing after %d nodes, want %s: %+v", i, text, w)
		n = &list[0]
		testenv.Same(t, fmt.Sprintf("node %d of %+v", i, w), strings.TrimSpace(n.Role+" "+n.State+" "+strings.TrimPrefix(n.Func, "main.")), text)
		list = n.Next
	}
	testenv.Same(t, want[len(want)-1], n.Time, time.Duration(ms)*time.Millisecond)
	return n
}

// checkUnknown is checkChain of a last node whose cause is unknown for all of the time.
func checkUnknown(t *testing.T, w *Waits, ms int, want ...string) {
	t.Helper()
	n := checkChain(t, w, ms, want...)
	testenv.FailIf(t, len(n.Next) != 0 || n.Unknown != n.Time, "it has a cause: %+v", n)
}

// Who holds a lock and is in C is in the state that reports have for it, blocked or on a core.
func TestWaitsForC(t *testing.T) {
	call := []tachyon.Frame{{Func: "main._Cfunc_nap", File: "_cgo_gotypes.go", Line: 7}, in("(*cache).get", 5)}
	for state, d := range map[string]did{
		stream.InC:      {1, tachyon.Unknown, slices.Concat([]tachyon.Frame{{Func: "[syscall]"}}, call)},
		stream.OnCPUInC: {1, tachyon.Unknown | tachyon.OnCPU, call},
	} {
		record := func() *stepper {
			s := &stepper{Recording: analyzetest.Record(t)}
			s.ticks(2, waitsFor(1, 1, in("(*cache).get", 4)), waitsFor(2, 1, in("(*cache).get", 4)))
			s.ticks(10, d, waitsFor(2, 1, in("(*cache).get", 4)))
			return s
		}
		w := record().waits(WaitOptions{Goroutine: 2}, mutexes...)
		testenv.Same(t, "a wait for "+state, slices.ContainsFunc(w.Chains[0].Next, func(n WaitNode) bool { return n.State == state }), true)
		locks := locksOf(record().Recording, Options{Source: readHolderText}, mutexes...)
		h := locks.Locks[0].Holder
		testenv.FailIf(t, h.States[state] != h.Seen+h.Inferred || h.States[state] == 0, "locks: %+v, want the state %s", h, state)
	}
}

// Two goroutines hold a lock each and wait for the other one's.
func TestWaitsOfDeadlock(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	s.ticks(3, waitsFor(1, 1, in("move", 17)), waitsFor(2, 2, in("move", 17)))
	s.ticks(2, sleeps(1, in("move", 18)), sleeps(2, in("move", 18)))
	s.ticks(10, waitsFor(1, 2, in("move", 18)), waitsFor(2, 1, in("move", 18)))
	w := s.waits(WaitOptions{Func: regexp.MustCompile("move$")}, mutexes...)
	found := false
	var look func(list []WaitNode, depth int)
	look = func(list []WaitNode, depth int) {
		for i := range list {
			found = found || list[i].Cycle
			testenv.StopIf(t, depth > 5, "the cycle is not noticed")
			look(list[i].Next, depth+1)
		}
	}
	look(w.Chains, 0)
	testenv.Same(t, "a cycle", found, true)
}

// A wait that has not ended is for all children that have not ended either. A child that goes on after the wait is none for which a
// WaitGroup waited, even if the profile ends at once. Goroutine 2 is the last that ended. That it lived beside others is known from their times.
func TestWaitsOfGroup(t *testing.T) {
	for apart, ends := range []bool{true, true, false} {
		s := stepper{Recording: analyzetest.Record(t)}
		for id := uint64(2); id <= 4; id++ {
			s.Goroutine(tachyon.Goroutine{ID: id, Parent: 1, FirstWeight: 1000, First: id * uint64(apart), Last: id * uint64(apart)})
		}
		wait := did{1, 0, append(analyzetest.WaitFor("sync.WaitGroup.Wait", 0), in("fan", 300))}
		if ends {
			signals := did{4, 0, []tachyon.Frame{{Func: "[select]"}, in("signals", 330)}}
			s.ticks(10, wait, sleeps(2, in("part", 310)), sleeps(3, in("part", 310)), signals)
			s.ticks(20, wait, sleeps(2, in("part", 310)), signals)
			s.ticks(1, did{1, analyzetest.Running, []tachyon.Frame{in("fan", 301)}}, signals)
		} else {
			s.ticks(10, wait, sleeps(2, in("part", 310)), sleeps(3, in("part", 310)), sleeps(4, in("other", 320)))
			s.ticks(20, wait, sleeps(2, in("part", 310)), sleeps(3, in("part", 310)))
		}
		n := checkChain(t, s.waits(WaitOptions{Goroutine: 1}), 30, "sync.WaitGroup.Wait fan", "last child sleep part")
		testenv.Same(t, "the last child", fmt.Sprint(!ends || n.Goroutine == 2, n.Others, n.Alone, n.Brother), []string{"true 0 20ms 20ms", "true 0 20ms 0s", "true 1 0s 0s"}[apart])
	}
}

// A select has no name of another function, in which others wait for one of its channels.
func TestSelectOfOthers(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	s.ticks(10, did{1, 0, append(analyzetest.WaitFor("select", 7), in("publish", 200))}, did{2, 0, append(analyzetest.WaitFor("select", 7), in("subscribe", 200))}, did{3, 0, append(analyzetest.WaitFor("select", 7), in("subscribe", 200))})
	testenv.Same(t, "the name", s.waits(WaitOptions{Goroutine: 1}, tachyon.Object{Number: 7, Kind: tachyon.ObjectSelect}).Chains[0].Name, "select")
}

// Where nearly all waits of a WaitGroup end without a child, one that ends when a wait does is chance.
func TestWaitsOfChance(t *testing.T) {
	for waits, want := range map[int]int{5: 1, 20: 0} {
		s := stepper{Recording: analyzetest.Record(t)}
		s.Goroutine(tachyon.Goroutine{ID: 2, Parent: 1, FirstWeight: 1000})
		wait := did{1, 0, append(analyzetest.WaitFor("sync.WaitGroup.Wait", 0), in("fan", 300))}
		s.ticks(10, wait, sleeps(2, in("part", 310)))
		for range waits {
			s.ticks(1, did{1, analyzetest.Running, []tachyon.Frame{in("fan", 301)}})
			s.ticks(10, wait)
		}
		n := checkChain(t, s.waits(WaitOptions{Goroutine: 1}), 10*(waits+1), "sync.WaitGroup.Wait fan")
		testenv.Same(t, fmt.Sprint(waits, " more waits: causes"), len(n.Next), want)
		testenv.Same(t, fmt.Sprint(waits, " more waits: unknown"), n.Unknown, n.Time-time.Duration(10*want)*time.Millisecond)
	}
}

// A goroutine waits for the answer of one that it has started. A child that ended earlier is no cause, nor is one that ends after the wait,
// because its parent does, one that waits for a channel when it ends, or one that another function has started.
func TestWaitsOfAnswer(t *testing.T) {
	ask := did{1, 0, []tachyon.Frame{{Func: "[select]"}, in("ask", 400)}}
	goesOn := did{1, analyzetest.Running, []tachyon.Frame{in("ask", 401)}}
	for _, test := range []struct {
		name, by string
		child    did
		after    int // ticks that the wait lasts longer than the child
		later    int // ticks that the child lives longer than the wait
		known    bool
	}{
		{"answers", "main.ask", sleeps(2, in("answer", 410)), 0, 0, true},
		{"ended earlier", "main.ask", sleeps(2, in("answer", 410)), 10, 0, false},
		{"lives on", "main.ask", sleeps(2, in("answer", 410)), 0, 5, false},
		{"waits for the end of its parent", "main.ask", did{2, 0, []tachyon.Frame{{Func: "[chan receive]"}, in("watch", 420)}}, 0, 0, false},
		{"is of another function", "main.serve", sleeps(2, in("backgroundRead", 430)), 0, 0, false},
	} {
		s := stepper{Recording: analyzetest.Record(t)}
		s.Goroutine(tachyon.Goroutine{ID: 2, Parent: 1, CreatedBy: test.by, FirstWeight: 1000})
		s.ticks(10, ask, test.child)
		s.ticks(test.after, ask)
		s.ticks(test.later, goesOn, test.child)
		s.ticks(5-test.later, goesOn)
		t.Log("a child that " + test.name)
		if w := s.waits(WaitOptions{Goroutine: 1}); test.known {
			checkChain(t, w, 10, "select ask", "child sleep answer")
		} else {
			checkUnknown(t, w, 10+test.after, "select ask")
		}
	}
}

// Of several goroutines that may send, the one that ran when the wait ended did it. A goroutine that goes on sleeping did not, and if
// two ran, it is unknown which of them it was.
func TestWaitsOfWhoRan(t *testing.T) {
	receives := did{1, 0, append(analyzetest.WaitFor("chan receive", 0), in("(*box).take", 31))}
	sends := func(g uint64, line int32) did { return sleeps(g, in("(*box).fill", line)) }
	done := did{1, analyzetest.Running, []tachyon.Frame{in("(*box).take", 32)}}
	for _, both := range []bool{false, true} {
		s := stepper{Recording: analyzetest.Record(t)}
		reads := did{4, 0, append(analyzetest.WaitFor("IO wait", 0), analyzetest.Place("net/http.(*connReader).backgroundRead", 600), in("(*box).fill", 36))}
		s.ticks(10, receives, sends(2, 36), sends(3, 36), reads) // a library's goroutine that waits for the next thing to do is no cause
		if both {
			s.ticks(5, done, sends(2, 38), sends(3, 38))
		} else {
			s.ticks(5, done, sends(2, 36), sends(3, 38))
		}
		w := s.waits(WaitOptions{Goroutine: 1})
		if both {
			checkUnknown(t, w, 10, "chan receive (*box).take")
		} else if n := checkChain(t, w, 10, "chan receive (*box).take", "other side sleep (*box).fill"); n.Goroutine != 3 || n.Others != 0 {
			t.Errorf("%+v", n)
		}
	}
}

// A consumer that is too slow never waits for its channel: it is busy in a function that the one that receives calls. It ran each time
// when the producer could go on, and mostly not before. Another consumer of such a channel runs at other times. One that runs at each
// tick could be the cause each time, and so says nothing.
func TestWaitsOfSlowConsumer(t *testing.T) {
	for _, rounds := range []int{5, 20} {
		s := stepper{Recording: analyzetest.Record(t)}
		consumes := func(g uint64, ran bool) did {
			d := sleeps(g, in("consume", 100), in("drain", 47))
			if g > 2 {
				d = sleeps(g, in("consume", 100), in("sink", 53))
			}
			if ran {
				d.status = tachyon.Moved
			}
			return d
		}
		for tick := range rounds * 4 {
			send := did{1, 0, append(analyzetest.WaitFor("chan send", 0), in("produce", 42))}
			if tick%4 == 0 {
				send.status = tachyon.Moved
			}
			s.ticks(1, send, consumes(2, tick%4 == 0), consumes(3, tick%3 == 0), consumes(4, true))
		}
		s.ticks(1, did{1, analyzetest.Running, []tachyon.Frame{in("produce", 43)}}, consumes(2, true), consumes(3, false), consumes(4, true))
		w := s.waits(WaitOptions{Goroutine: 1})
		if rounds == 5 {
			testenv.Same(t, "causes after five times", len(checkChain(t, w, 20, "chan send produce").Next), 0)
		} else if n := checkChain(t, w, 80, "chan send produce", "other side sleep consume"); n.Goroutine != 2 || n.Others != 0 || n.In == nil || n.In.Func != "main.drain" {
			t.Errorf("%+v", n)
		}
	}
}

// A function literal on the line of a call is another function than the one that calls.
func TestLiteralOnALine(t *testing.T) {
	f := syntax.NewSources(readHolderText).File(&tachyon.Frame{File: "/home/u/app/cache.go", Func: "main.limited", Line: 58})
	for name, ops := range map[string]int{"limited": 0, "limited.func1": 1, "limited.func1.2": 1} {
		frame := in(name, 58)
		testenv.Same(t, name, len(f.Of(&frame).Ops), ops)
	}
}

// Who waits for a connection of a pool waits for those that have one: in the library, or in the program between the call that returns one
// and that which gives it back. With two pools the text says which one it is; a program with one pool needs no text.
func TestWaitsOfPool(t *testing.T) {
	for _, test := range []struct {
		name  string
		pools int
		ask   string // the function that asks
		text  bool
		want  []uint64 // goroutines that hold connections, the same time each
	}{
		{"two", 2, "(*shop).ask", true, []uint64{2, 5, 6}},
		{"one, without text", 1, "query", false, []uint64{5}},
		{"two, without text", 2, "query", false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := stepper{Recording: analyzetest.Record(t)}
			at := func(line int32) tachyon.Frame { return in(test.ask, line) }
			query := analyzetest.Place("database/sql.(*DB).query", 1700)
			selects := append(analyzetest.WaitFor("select", 0), analyzetest.Place("database/sql.(*DB).conn", 1300), query, at(62))
			reads := append(analyzetest.WaitFor("IO wait", 0), analyzetest.Place("database/sql.(*DB).queryDC", 1800), query, at(62))
			var openers []did
			for i := range test.pools {
				openers = append(openers, did{uint64(8 + i), 0, append(analyzetest.WaitFor("select", 0), analyzetest.Place("database/sql.(*DB).connectionOpener", 1200))})
			}
			begin := analyzetest.Place("database/sql.(*DB).beginDC", 1900)
			s.ticks(1, append(openers, sleeps(3, begin, in("(*shop).report", 69)), sleeps(6, begin, in("(*shop).move", 75)))...)
			list := append(openers, did{1, 0, selects}, sleeps(3, in("(*shop).report", 71)), did{5, 0, reads})
			if test.text {
				list = append(list, sleeps(2, in("work", 200), at(63)), sleeps(4, at(65)), sleeps(6, in("(*shop).move", 77)))
			}
			s.ticks(10, list...)
			s.ticks(5, did{1, analyzetest.Running, []tachyon.Frame{at(62)}}, did{5, 0, reads}) // it did not end the wait
			o := WaitOptions{Goroutine: 1}
			if !test.text {
				o.Source = func(string) *source.File { return nil }
			}
			n := checkChain(t, s.waits(o), 10, "select "+strings.TrimPrefix(test.ask, "main."))
			name := "a free connection of sql.DB"
			if len(test.want) > 0 {
				name += fmt.Sprintf(" (%d of %d in use)", len(test.want), len(test.want))
			}
			var got []uint64
			for _, by := range n.Next {
				got = append(got, by.Goroutine)
				testenv.FailIf(t, (by.Time*time.Duration(len(test.want))-10*time.Millisecond).Abs() > time.Millisecond || by.Role != RoleHolds || by.Func == "main.work" && (by.In == nil || by.In.Line != 63), "%+v", by)
			}
			slices.Sort(got)
			testenv.Same(t, "what is waited for, and who has it", fmt.Sprint(n.Name, got), fmt.Sprint(name, test.want))
		})
	}
}

// Of libraries' pools it is known by their functions who has a place, if there is one pool, or if the text of main.main names it.
func TestHoldersOfLibraries(t *testing.T) {
	of := func(name string) tachyon.Frame {
		return tachyon.Frame{File: "/root/go/pkg/mod/example.org/x@v1.0.0/x.go", Func: name, Line: 9}
	}
	for _, c := range []struct{ wait, has, one string }{
		{"github.com/valyala/fasthttp.(*HostClient).AcquireConn", "github.com/valyala/fasthttp.(*Response).ReadLimitBody", "github.com/valyala/fasthttp.(*HostClient).connsCleaner"},
		{"github.com/redis/go-redis/v9/internal.(*FastSemaphore).Acquire", "github.com/redis/go-redis/v9/internal/pool.(*Conn).WithReader", ""},
		{"github.com/redis/go-redis/v9/internal.(*FastSemaphore).Acquire", "github.com/redis/go-redis/v9.(*Client).Watch", ""},
		{"github.com/jackc/puddle/v2.(*Pool[...]).acquire", "github.com/jackc/pgx/v5.beginFuncExec", "github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"},
	} {
		s := stepper{Recording: analyzetest.Record(t)}
		ask := tachyon.Frame{File: "/home/u/app/main.go", Func: "main.main.func1", Line: 3}
		list := []did{{1, 0, append(analyzetest.WaitFor("select", 0), of(cmp.Or(knownIn[c.wait].calls, "sync.(*Cond).Wait")), of(c.wait), of("github.com/redis/go-redis/v9.(*baseClient).withConn"), ask)}, {2, 0, append(analyzetest.WaitFor("IO wait", 0), of("github.com/redis/go-redis/v9.(*baseClient).withConn"), of(c.has), ask)}}
		for id := uint64(3); c.one != "" && id < 4+uint64(knownIn[c.wait].pool.own); id++ {
			list = append(list, did{id, 0, append(analyzetest.WaitFor("select", 0), of(c.one))})
		}
		s.ticks(10, list...)
		read := func(string) *source.File {
			return &source.File{Text: []byte("package main\nfunc main() { db, d := f(); go func() {\ndb.Get()\n}() }\n")}
		}
		checkChain(t, s.waits(WaitOptions{Goroutine: 1, Options: Options{Source: read}}), 10, "select main.func1", "holds IO wait main.func1")
	}
}

// How many goroutines there were is exact beyond the room of a node, and where it is not, that is said.
func TestWaitsOfManyOthers(t *testing.T) {
	n := &chainNode{goroutines: map[uint64]uint64{}}
	w := &waitChains{Sums: &Sums{}, room: 50}
	for g := range uint64(140) {
		w.addTo(n, g, 1)
	}
	testenv.Same(t, "goroutines", fmt.Sprint(len(n.goroutines), n.more), "140 false")
	for g := range uint64(170) {
		w.addTo(n, g, 1)
	}
	testenv.Same(t, "goroutines", fmt.Sprint(len(n.goroutines), n.more), "150 true")
}

// Each of 60 goroutines waits for one of 60 others, which wait for one of these. All chains together would take
// hours.
func TestWaitsOfMany(t *testing.T) {
	testenv.Again(t)
	s := stepper{Recording: analyzetest.Record(t)}
	does := func(g uint64, reason, function string) did {
		return did{g, 0, append(analyzetest.WaitFor(reason, 1), in(function, 200))}
	}
	var all []did
	for g := uint64(1); g <= 60; g++ {
		all = append(all, does(g, "chan send", "ask"), does(100+g, "chan receive", "answer"))
	}
	ticks := testenv.Times(testenv.Brief(60, 120), 300)
	for i := range ticks { // each tick some run
		all[i%120].status = analyzetest.Running
		s.ticks(1, all...)
		all[i%120].status = 0
	}
	w := s.waits(WaitOptions{Func: regexp.MustCompile("ask$")})
	want := 60 * time.Duration(ticks) * time.Millisecond
	testenv.Within(t, "the time", w.Time, want-want/100, want+want/100)
	n := w.Chains[0].Next[0]
	testenv.FailIf(t, n.Func != "main.answer" || n.Others < 50, "%+v", n)
}

// A goroutine may have very many children, one after the other: those that live at a time are few.
func TestAliveChildren(t *testing.T) {
	const count = 2000
	rng := rand.New(rand.NewPCG(3, 4))
	w := &waitChains{index: map[uint64]int32{}, children: map[uint64][]uint64{}, families: map[uint64]*family{}}
	in := &window{goroutines: make([]uint64, count)}
	for i := range int32(count) {
		id := uint64(i + 100)
		first := rng.Uint64N(count * 10)
		w.index[id] = i
		in.stretches.Add(stretch{goroutine: i, begin: first, end: first + 1 + rng.Uint64N(40)})
		w.children[1] = append(w.children[1], id)
	}
	w.children[1] = append(w.children[1], 5) // not in the window
	w.wakers = newWakers(&sweep{w: in})
	most := 0
	for at := uint64(0); at < count*10+50; at += 1 + rng.Uint64N(9) {
		got := slices.Sorted(slices.Values(w.alive(1, at)))
		var want []int32
		for i := range int32(count) {
			if x := in.stretches.At(i); x.begin <= at && at <= x.end {
				want = append(want, i)
			}
		}
		testenv.FailIf(t, !slices.Equal(got, want), "at %d: %d live, want %d", at, got, want)
		most = max(most, len(got))
	}
	testenv.Within(t, "live at once", most, 1, 30)
}

// Who waits for an equal call waits for the goroutine that makes it, if there is only one that makes any.
func TestWaitsOfEqualCall(t *testing.T) {
	for calls, want := range map[int]int{1: 1, 2: 0} {
		s := stepper{Recording: analyzetest.Record(t)}
		ask := in("(*shop).ask", 62)
		const file = "/root/go/pkg/mod/golang.org/x/sync@v0.1.0/singleflight/singleflight.go"
		do, call := tachyon.Frame{File: file, Func: "golang.org/x/sync/singleflight.(*Group).Do", Line: 99}, tachyon.Frame{File: file, Func: "golang.org/x/sync/singleflight.(*Group).doCall", Line: 200}
		list := []did{{1, 0, append(analyzetest.WaitFor("sync.WaitGroup.Wait", 0), analyzetest.Place("sync.(*WaitGroup).Wait", 1), do, ask)}}
		for i := range calls {
			list = append(list, sleeps(uint64(2+i), in("fetch", 300), call, do, ask))
		}
		s.ticks(10, list...)
		s.ticks(5, did{1, analyzetest.Running, []tachyon.Frame{ask}})
		n := checkChain(t, s.waits(WaitOptions{Goroutine: 1}), 10, "sync.WaitGroup.Wait (*shop).ask")
		testenv.FailIf(t, n.Name != EqualCall || len(n.Next) != want || want == 1 && (n.Next[0].Goroutine != 2 || n.Next[0].Role != RoleHolds), "%d calls: %+v", calls, n)
	}
}

// Objects of one kind for which goroutines wait at one line are one row, if they are many, such as the groups that each call makes.
func TestWaitsOfAlike(t *testing.T) {
	for n, want := range map[int]int{2: 2, 4: 1} {
		s := stepper{Recording: analyzetest.Record(t)}
		var list []did
		var objects []tachyon.Object
		for i := 1; i <= n; i++ {
			wait := append(analyzetest.WaitFor("sync.WaitGroup.Wait", int32(i)), analyzetest.Place("sync.(*WaitGroup).Wait", 1), in("(*shop).ask", 62))
			list = append(list, did{uint64(i), 0, wait}, did{uint64(10 + i), 0, wait})
			objects = append(objects, tachyon.Object{Number: int32(i), Kind: tachyon.ObjectWaitGroup, Addr: uint64(0xc000010000 + 64*i)})
		}
		s.ticks(10, list...)
		waits := s.waits(WaitOptions{Func: regexp.MustCompile("ask")}, objects...)
		testenv.Same(t, fmt.Sprint("chains of objects: ", n), len(waits.Chains), want)
		x := &waits.Chains[0]
		testenv.FailIf(t, want == 1 && (!strings.HasSuffix(x.Name, " (4 objects)") || x.Object != 0 || x.Time != time.Duration(2*n)*10*time.Millisecond || x.Others != 2*n-1 || x.Unknown != x.Time), "%+v", x)
	}
}
