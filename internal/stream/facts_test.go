package stream

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// Equal creators of all files have one number.
func TestCreators(t *testing.T) {
	f, g, h := Creator{"main.f", "x.go:1"}, Creator{"main.f", "x.go:2"}, Creator{"main.h", ""}
	c := newCreatorNumbers()
	var got []uint32
	for range 2 {
		for _, x := range []Creator{f, g, f, h, {}, {"a", "1"}, {"a", "2"}, {"a", "3"}, f} { // more than creatorNumbers.latest has
			got = append(got, c.of(x))
		}
	}
	testenv.SameList(t, "numbers", got, slices.Repeat([]uint32{1, 2, 1, 3, 0, 4, 5, 6, 1}, 2))
	var all creatorNumbers
	testenv.SameList(t, "the first file", all.add(c.table.List), []uint32{0, 1, 2, 3, 4, 5, 6})
	testenv.SameList(t, "the second file", all.add([]Creator{{}, h, {"b", ""}, f}), []uint32{0, 3, 7, 1})
	testenv.NoDiff(t, "", cmp.Diff(all.table.List[7], Creator{"b", ""}))
}

// Labels keep each label, whatever its texts, and equal ones have one address.
func TestLabels(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "\x00", "\xff"}), rapid.StringN(120, 400, -1))
	rapid.Check(t, func(t *rapid.T) {
		table := &labelTable{}
		if rapid.Bool().Draw(t, "many") {
			table.list = make([]*Labels, mostListed)
		}
		add := func(set map[string]string) *Labels { return table.get(table.add(set)) }
		set := rapid.MapOfN(text, text, 0, 5).Draw(t, "labels")
		l := add(set)
		if len(set) == 0 {
			testenv.Same(t, "no labels", l, nil)
			return
		}
		testenv.FailIf(t, !maps.Equal(l.Map(), set) || add(maps.Clone(set)) != l, "%q, want %q", l.Map(), set)
		other := rapid.MapOfN(text, text, 1, 5).Draw(t, "other")
		testenv.Same(t, "equal labels are the same", add(other) == l, maps.Equal(set, other))
		keys := slices.Concat(slices.Collect(maps.Keys(set)), slices.Collect(maps.Keys(other)))
		for _, k := range keys {
			want, has := set[k]
			v, ok := l.Get(k)
			testenv.FailIf(t, v != want || ok != has, "%q is %q, %v; want %q, %v", k, v, ok, want, has)
		}
	})
}

func TestState(t *testing.T) {
	const on, call, in = tachyon.HasGIL | tachyon.OnCPU, tachyon.Unknown | tachyon.OnCPU, tachyon.Unknown
	f := tachyon.Frame{Func: "f", File: "f.go"}
	sleep, syscall := tachyon.Frame{Func: "[sleep]"}, tachyon.Frame{Func: "[syscall]"}
	c := tachyon.Frame{Func: "runtime.cgocall", File: "cgocall.go"}
	callback := tachyon.Frame{Func: "runtime.cgocallbackg1", File: "cgocall.go"}
	for _, c := range []struct {
		s     tachyon.Status
		stack []tachyon.Frame // innermost first
		want  string
	}{
		{on, []tachyon.Frame{f}, "running"},
		{on | tachyon.MainThread, []tachyon.Frame{sleep, f}, "running"},
		{on, []tachyon.Frame{{Func: "[scheduler]"}}, "running"},
		{on, []tachyon.Frame{c, f}, "running"}, // on the way to C
		{tachyon.HasGIL, []tachyon.Frame{f}, "no core"},
		{tachyon.HasGIL | tachyon.MainThread, nil, "no core"},
		{tachyon.GILRequested, nil, "runnable"},
		{tachyon.GILRequested, []tachyon.Frame{{Func: "[runnable]"}, f}, "runnable"},
		{tachyon.GILRequested, []tachyon.Frame{{Func: "[runnable, not started]"}, f}, "runnable"},
		{in, nil, "syscall"},
		{in, []tachyon.Frame{syscall, f}, "syscall"},
		{in, []tachyon.Frame{syscall, c, f}, "C"},
		{in, []tachyon.Frame{c, f}, "C"},
		{in, []tachyon.Frame{syscall, {Func: "main._Cfunc_nap", File: "_cgo_gotypes.go"}, f}, "C"},
		{in, []tachyon.Frame{f, callback, c, f}, "syscall"}, // Go code that C called
		{call, []tachyon.Frame{f}, "syscall on CPU"},
		{call, []tachyon.Frame{syscall, f}, "syscall on CPU"},
		{call, []tachyon.Frame{c}, "C on CPU"},
		{call, []tachyon.Frame{syscall, c, f}, "C on CPU"},
		{call, nil, "syscall on CPU"},
		{0, []tachyon.Frame{sleep}, "sleep"},
		{0, []tachyon.Frame{{Func: "[sync.Mutex.Lock]", Line: 17}, f}, "sync.Mutex.Lock"},
		{tachyon.HasException, []tachyon.Frame{sleep}, "sleep"},
		{0, []tachyon.Frame{{Func: "[not a wait]", File: "x.py"}}, "waiting"},
		{0, []tachyon.Frame{{Func: "[]"}}, "waiting"},
		{0, nil, "waiting"},
	} {
		var f [2]*tachyon.Frame
		for i := range min(len(f), len(c.stack)) {
			f[i] = &c.stack[i]
		}
		testenv.Same(t, fmt.Sprintf("state(%#x, %v)", c.s, c.stack), state(c.s, f), c.want)
	}
}

// Of many threads, the ones are remembered that were sampled last.
func TestSeamsTrim(t *testing.T) {
	s := newSeams()
	labels := &Labels{Key: "k"}
	const n = maxSeams + 1000
	for i := range uint64(n) {
		its := []*Labels{0: labels, 99: nil}[i%100]
		for range 2 { // the labels do not add up
			s.add(&slot{id: i * 7, interpreter: uint32(i % 2), last: i}, its)
		}
	}
	testenv.Same(t, "threads with labels", s.carried, (n+99)/100)
	s.trim()
	testenv.FailIf(t, len(s.of) < maxSeams/2 || len(s.of) > maxSeams || s.carried/100 != maxSeams/2/100/100, "%d threads and %d labels are left", len(s.of), s.carried)
	for i := uint64(0); i < n; i += 3 {
		e, ok := s.find(i*7, uint32(i%2))
		_, other := s.find(i*7, uint32(i+1)%2)
		recent := i >= n-maxSeams/2
		testenv.FailIf(t, ok != recent || other, "thread %d is known: %v, want %v; that of the other interpreter: %v", i, ok, recent, other)
		testenv.FailIf(t, ok && (e.last != i || (e.labels == labels) != (i%100 == 0)), "thread %d has %+v", i, e)
	}
}

func TestIDSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set idSet
		want := map[uint64]bool{}
		id := rapid.OneOf(rapid.Uint64Range(0, 2000), rapid.Uint64())
		for range rapid.IntRange(0, 300).Draw(t, "adds") {
			n := id.Draw(t, "id")
			testenv.FailIf(t, set.has(n) != want[n] || set.add(n) == want[n] || !set.has(n), "id %d was in the set: %v", n, want[n])
			want[n] = true
		}
	})
}

// Goroutines of different processes have different ids, which stay what they are. Large ids are those of other profilers.
func TestNames(t *testing.T) {
	a, b, c := Process{PID: 1}, Process{PID: 2}, Process{PID: 3}
	n := newNames([]*Part{{Process: a}, {Process: b}, {Process: c}})
	for range 2 {
		for _, w := range []struct {
			p        Process
			id, want uint64
		}{
			{b, 5, 5 + apart}, {a, 5, 5}, {c, 5, 5 + 2*apart}, {a, 6, 6}, {c, 7, 7 + 2*apart},
			{b, apart, apart}, {a, apart, 2 * apart}, {c, apart, 3 * apart}, {c, apart + 1, apart + 1},
		} {
			testenv.Same(t, fmt.Sprintf("goroutine %d of process %d", w.id, w.p.PID), n.ID(w.p, w.id), w.want)
		}
	}
}

// TestProcessLabel checks what a session says about its process.
func TestProcessLabel(t *testing.T) {
	revision := map[string]string{"vcs.revision": "0123456789abcdef", "vcs.modified": "false"}
	dirty := map[string]string{"vcs.revision": "0123456789abcdef", "vcs.modified": "true"}
	for _, c := range []struct {
		s         tachyon.Session
		key, want string
	}{
		{tachyon.Session{Host: "web-1"}, "host", "web-1"},
		{tachyon.Session{Host: "web-1", PID: 47}, "pid", "47"},
		{tachyon.Session{Host: "web-1", PID: 47}, "process", "web-1/47"},
		{tachyon.Session{Program: "app"}, "service", "app"},
		{tachyon.Session{Program: "app", Service: "shop"}, "service", "shop"},
		{tachyon.Session{Version: "v1.2.3", VCS: revision, BuildID: "ab", ServiceVersion: "7"}, "version", "7"},
		{tachyon.Session{Version: "v1.2.3", VCS: revision, BuildID: "ab"}, "version", "v1.2.3"},
		{tachyon.Session{Version: "(devel)", VCS: revision, BuildID: "ab"}, "version", "0123456789ab"},
		{tachyon.Session{Version: "(devel)", VCS: dirty, BuildID: "ab"}, "version", "0123456789ab+dirty"},
		{tachyon.Session{BuildID: "0123456789abcdef"}, "version", "build 0123456789ab"},
		{tachyon.Session{BuildID: "action/y/x/content"}, "version", "build content"},
		{tachyon.Session{}, "host", ""},
		{tachyon.Session{Host: "web-1"}, "process", ""},
		{tachyon.Session{Host: "web-1"}, "request", ""},
	} {
		got, ok := ProcessLabel(&c.s, c.key)
		testenv.FailIf(t, got != c.want || ok != (c.want != ""), "%s of %+v is %q, %v; want %q", c.key, c.s, got, ok, c.want)
	}
}
