package analyze

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// waits returns the waits in a recording.
func (s *stepper) waits(o WaitOptions, objects ...tachyon.Object) *Waits {
	s.t.Helper()
	s.objects = objects
	f := s.finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	o.Source = readHolderText
	w := must(FindWaits(samplesOf(s.t, stream.Options{Objects: true}, f), o))(s.t)
	return w
}

// checkChain follows the first nodes and compares each with "role state function", and the last one's time.
func checkChain(t *testing.T, w *Waits, ms int, want ...string) *WaitNode {
	t.Helper()
	list := w.Chains
	var n *WaitNode
	for i, text := range want {
		if len(list) == 0 {
			t.Fatalf("nothing after %d nodes, want %s: %+v", i, text, w)
		}
		n = &list[0]
		if got := strings.TrimSpace(n.Role + " " + n.State + " " + strings.TrimPrefix(n.Func, "main.")); got != text {
			t.Fatalf("node %d is %q, want %q: %+v", i, got, text, w)
		}
		list = n.Next
	}
	if n.Time != time.Duration(ms)*time.Millisecond {
		t.Errorf("%s has %v, want %d ms", want[len(want)-1], n.Time, ms)
	}
	return n
}

// Who holds a lock and is in C is in the state that reports have for it, blocked or on a core.
func TestWaitsForC(t *testing.T) {
	call := []tachyon.Frame{{Func: "main._Cfunc_nap", File: "_cgo_gotypes.go", Line: 7}, in("(*cache).get", 5)}
	for state, d := range map[string]did{
		stream.InC:      {1, tachyon.Unknown, slices.Concat([]tachyon.Frame{{Func: "[syscall]"}}, call)},
		stream.OnCPUInC: {1, tachyon.Unknown | tachyon.OnCPU, call},
	} {
		record := func() *stepper {
			s := &stepper{recording: record(t)}
			s.ticks(2, waitsFor(1, 1, in("(*cache).get", 4)), waitsFor(2, 1, in("(*cache).get", 4)))
			s.ticks(10, d, waitsFor(2, 1, in("(*cache).get", 4)))
			return s
		}
		w := record().waits(WaitOptions{Goroutine: 2}, mutexes...)
		if n := w.Chains[0].Next; !slices.ContainsFunc(n, func(n WaitNode) bool { return n.State == state }) {
			t.Errorf("waits: %+v, want the state %s", n, state)
		}
		locks := record().locks(LockOptions{Source: readHolderText}, mutexes...)
		if h := locks.Locks[0].Holder; h.States[state] != h.Seen+h.Inferred || h.States[state] == 0 {
			t.Errorf("locks: %+v, want the state %s", h, state)
		}
	}
}

// Two goroutines hold a lock each and wait for the other one's.
func TestWaitsOfDeadlock(t *testing.T) {
	s := stepper{recording: record(t)}
	s.ticks(3, waitsFor(1, 1, in("move", 17)), waitsFor(2, 2, in("move", 17)))
	s.ticks(2, sleeps(1, in("move", 18)), sleeps(2, in("move", 18)))
	s.ticks(10, waitsFor(1, 2, in("move", 18)), waitsFor(2, 1, in("move", 18)))
	w := s.waits(WaitOptions{Func: regexp.MustCompile("move$")}, mutexes...)
	found := false
	var look func(list []WaitNode, depth int)
	look = func(list []WaitNode, depth int) {
		for i := range list {
			found = found || list[i].Cycle
			if depth > 5 {
				t.Fatal("the cycle is not noticed")
			}
			look(list[i].Next, depth+1)
		}
	}
	look(w.Chains, 0)
	if !found {
		t.Errorf("no cycle: %+v", w)
	}
}

// A wait that has not ended is for all children that have not ended either.
func TestWaitsOfGroupNow(t *testing.T) {
	s := stepper{recording: record(t)}
	for id := uint64(2); id <= 4; id++ {
		s.goroutine(tachyon.Goroutine{ID: id, Parent: 1, FirstWeight: 1000})
	}
	wait := did{1, 0, append(waitFor("sync.WaitGroup.Wait", 0), in("fan", 300))}
	s.ticks(10, wait, sleeps(2, in("part", 310)), sleeps(3, in("part", 310)), sleeps(4, in("other", 320)))
	s.ticks(20, wait, sleeps(2, in("part", 310)), sleeps(3, in("part", 310)))
	n := checkChain(t, s.waits(WaitOptions{Goroutine: 1}), 30, "sync.WaitGroup.Wait fan", "last child sleep part")
	if n.Others != 1 || n.Alone != 0 {
		t.Errorf("%+v", n)
	}
}

// A goroutine waits for the answer of one that it has started.
func TestWaitsOfAnswer(t *testing.T) {
	s := stepper{recording: record(t)}
	s.goroutine(tachyon.Goroutine{ID: 2, Parent: 1, FirstWeight: 1000})
	ask := did{1, 0, []tachyon.Frame{{Func: "[select]"}, in("ask", 400)}}
	s.ticks(10, ask, sleeps(2, in("answer", 410)))
	s.ticks(5, did{1, running, []tachyon.Frame{in("ask", 401)}})
	checkChain(t, s.waits(WaitOptions{Goroutine: 1}), 10, "select ask", "child sleep answer")

	s = stepper{recording: record(t)}
	s.goroutine(tachyon.Goroutine{ID: 2, Parent: 1, FirstWeight: 1000})
	s.ticks(10, ask, sleeps(2, in("answer", 410)))
	s.ticks(10, ask)
	s.ticks(10, did{1, running, []tachyon.Frame{in("ask", 401)}})
	if n := checkChain(t, s.waits(WaitOptions{Goroutine: 1}), 20, "select ask"); len(n.Next) != 0 || n.Unknown != 20*time.Millisecond {
		t.Errorf("the goroutine that ended earlier is said to be the reason: %+v", n)
	}
}

// Each of 60 goroutines waits for one of 60 others, which wait for one of these. All chains together would take
// hours.
func TestWaitsOfMany(t *testing.T) {
	s := stepper{recording: record(t)}
	selects := func(g uint64, function string) did {
		return did{g, 0, append(waitFor("select", 1), in(function, 200))}
	}
	var all []did
	for g := uint64(1); g <= 60; g++ {
		all = append(all, selects(g, "ask"), selects(100+g, "answer"))
	}
	for i := range 300 {
		// Each tick some run.
		all[i%120].status = running
		s.ticks(1, all...)
		all[i%120].status = 0
	}
	done := make(chan *Waits)
	go func() { done <- s.waits(WaitOptions{Func: regexp.MustCompile("ask$")}) }()
	select {
	case w := <-done:
		want := 60 * 300 * time.Millisecond
		if d := w.Time - want; d.Abs() > want/100 || len(w.Chains) == 0 || len(w.Chains[0].Next) == 0 || w.Chains[0].Next[0].Func != "main.answer" || w.Chains[0].Next[0].Others < 50 {
			t.Errorf("%v: %+v", w.Time, w.Chains)
		}
	case <-time.After(time.Minute):
		t.Fatal("it takes too long")
	}
}

// A goroutine may have very many children, one after the other: those that live at a time are few.
func TestAliveChildren(t *testing.T) {
	const count = 2000
	rng := rand.New(rand.NewPCG(3, 4))
	w := &waitChains{index: map[uint64]int32{}, children: map[uint64][]uint64{}, families: map[uint64]*family{}}
	for i := range int32(count) {
		id := uint64(i + 100)
		first := rng.Uint64N(count * 10)
		w.index[id] = i
		w.first, w.last = append(w.first, first), append(w.last, first+1+rng.Uint64N(40))
		w.children[1] = append(w.children[1], id)
	}
	w.children[1] = append(w.children[1], 5) // not in the window
	most := 0
	for at := uint64(0); at < count*10+50; at += 1 + rng.Uint64N(9) {
		got := slices.Sorted(slices.Values(w.alive(1, at)))
		var want []int32
		for i := range int32(count) {
			if w.first[i] <= at && at <= w.last[i] {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("at %d: %d live, want %d", at, got, want)
		}
		most = max(most, len(got))
	}
	if most > 30 || most == 0 {
		t.Errorf("%d live at once", most)
	}
}
