//go:build amd64 || arm64

package attach

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

type waiter chan bool

//go:noinline
func (w waiter) wait(int) { <-w }

func (w waiter) short(int) { w.wait(0) }

//go:noinline
func begin(w interface{ wait(int) }) { go w.wait(1) }

// A goroutine that has not run yet begins with the function that its go statement calls, not with the wrapper that the compiler made.
func TestBegins(t *testing.T) {
	notEmulated(t)
	w := make(waiter)
	defer close(w)
	go w.wait(1)
	go w.short(1)
	go func() { <-w }()
	begin(w)
	p := testenv.Must(Open(t.Context(), os.Getpid()))
	got := map[string]bool{}
	testenv.Await(func() bool {
		_ = testenv.Must(p.refresh())
		var all []int
		for i := range p.gs {
			all = append(all, i)
		}
		testenv.OK(t, p.heads(all, func(_ int, b []byte) {
			h := parse(b, p.program.layout)
			if by := p.creator(h.gopc); goruntime.Alive(h.status) && (strings.HasSuffix(by.Func, ".TestBegins") || strings.HasSuffix(by.Func, "attach.begin")) {
				got[strings.TrimPrefix(p.begins(&h).Func, "github.com/gotach/profiler/cmd/gotach/internal/attach.")] = true
			}
		}))
		return len(got) >= 4
	})
	testenv.SameList(t, "goroutines begin with", slices.Sorted(maps.Keys(got)), []string{"TestBegins.func1", "begin", "waiter.short", "waiter.wait"})
}

// A tick that finds a goroutine running ends its wait. What perf has not seen is no time on a CPU, and time without a core only if the
// goroutine has not stopped meanwhile.
func TestRuns(t *testing.T) {
	const waiting, running, runnable, calls, dead = goruntime.GWaiting, goruntime.GRunning, goruntime.GRunnable, goruntime.GSyscall, goruntime.GDead
	const ms, rests, same, wakes, ends = time.Millisecond, 1 << 31, 0, 1<<30 | runnable, 1 << 29 // wakes: it is runnable, and runs right after the look; ends: it waits then
	type tick struct {
		finds uint32
		cpu   time.Duration
	}
	for _, tt := range []struct {
		name  string
		ticks []tick
		want  string
	}{
		{"for a short time", []tick{{waiting, 0}, {running, 0}, {waiting, ms / 4}}, "wait 1ms, on 250µs, wait 1.75ms"},
		{"after a rest", []tick{{waiting, 0}, {rests, 0}, {rests, 0}, {running, 0}, {runnable, ms / 4}}, "wait 1ms, wait 2ms, on 250µs, runnable 1.75ms"},
		{"to right after the look", []tick{{waiting, 0}, {running | ends, 0}, {waiting, ms / 4}}, "wait 1ms, on 250µs, wait 1.75ms"},
		{"in calls that end right after the look", []tick{{calls, 0}, {waiting, 0}, {calls | ends, 0}}, "call 1ms, wait 1ms, call 1ms"},
		{"after it was runnable", []tick{{waiting, 0}, {wakes, 0}, {waiting, ms / 4}}, "wait 1ms, runnable 1ms, on 250µs, wait 750µs"},
		{"always", []tick{{running, 0}, {same, ms}, {same, ms}, {same, ms}}, "on 1ms, on 1ms, on 1ms"},
		{"without a core", []tick{{waiting, 0}, {running, 0}, {same, 0}, {same, 0}, {same, 0}, {same, 0}, {waiting, 0}},
			"wait 1ms, no core 1ms, no core 1ms, no core 1ms, wait 3ms"},
		{"and stops between", []tick{{waiting, 0}, {running, 0}, {running, 0}, {running, 0}, {running, 0}, {running, 0}}, "wait 1ms, wait 1ms, wait 1ms, wait 1ms"},
		{"and stops between, with a core", []tick{{waiting, 0}, {running, 0}, {running, ms / 4}, {running, ms / 4}, {running, ms / 4}},
			"wait 1ms, on 250µs, wait 500µs, on 250µs, wait 750µs, on 250µs"},
		{"and rests", []tick{{waiting, 0}, {same, ms / 4}, {waiting, 0}}, "wait 1ms, wait 1ms, on 250µs, wait 750µs"}, // what it ran was before
		{"often, for a short time, without a core", slices.Repeat([]tick{{waiting, 0}, {running, 0}}, 100), "in all no core 69ms wait 130ms"},
		{"often, for a short time, with a core", slices.Repeat([]tick{{waiting, ms / 2}, {running, ms / 2}}, 100), "in all on 100ms wait 100ms"},
		{"and ends", []tick{{running, 0}, {dead, 0}}, "no core 1ms"},
	} {
		s := newScripted()
		r, _ := scriptedRecorder(t, s, Options{Interval: ms})
		r.base, r.perf, r.list, r.dueAt, r.spans = 0, &perf{period: ms}, []*known{{}}, make([]time.Duration, 1), make([]span, 1)
		_ = testenv.Must(s.refresh())
		l := s.program.layout
		s.set(theG+uint64(l.GSyscallSP), theStack+1024)
		s.set(theG+uint64(l.GSyscallPC), 0x400100)
		seq := byte(0)
		for _, x := range tt.ticks {
			if r.before, r.now = r.now, r.now+ms; x.finds == rests {
				continue
			}
			if x.finds != same {
				seq += byte(1 - x.finds>>30&1) // what wakes has not run since
				s.part(theG + uint64(l.GStatus))[0], s.part(theG + uint64(l.GTrackingSeq))[0] = byte(x.finds), seq
			}
			r.owe(r.list[0], debt{[]uint32{9}, tachyon.HasGIL, x.cpu})
			r.walks = r.walks[:0]
			testenv.OK(t, r.heads([]int{0}, r.look))
			if x.finds == wakes {
				s.part(theG + uint64(l.GStatus))[0] = running
			} else if x.finds&ends != 0 {
				s.part(theG + uint64(l.GStatus))[0], s.part(theG + uint64(l.GTrackingSeq))[0] = waiting, seq+100
			}
			testenv.OK(t, r.readAll())
		}
		var got []string
		sums := map[string]time.Duration{}
		at := time.Duration(0)
		for _, x := range r.batch {
			what := "wait"
			switch {
			case x.Status == tachyon.GILRequested:
				what = "runnable"
			case x.Status == tachyon.Unknown:
				what = "call"
			case x.Status&tachyon.OnCPU != 0:
				what = "on"
			case x.Status&tachyon.HasGIL != 0:
				what = "no core"
			}
			now := time.Duration(x.Time) * time.Microsecond
			got = append(got, fmt.Sprint(what, " ", now-at))
			sums[what] += now - at
			at = now
		}
		if strings.HasPrefix(tt.want, "in all") {
			for what := range sums {
				sums[what] = sums[what].Round(ms)
			}
			got = []string{strings.NewReplacer("map[", "in all ", "]", "", ":", " ").Replace(fmt.Sprint(sums))}
		}
		testenv.Same(t, tt.name, strings.Join(got, ", "), tt.want)
		testenv.OK(t, r.w.Discard(func(*writer.Writer) error { return nil }))
	}
}

const theSudogs, sudogSize = 0x40000, 128

// The objects of a wait count only if the goroutine waits for them after they were read too.
func TestObjectsOf(t *testing.T) {
	l := goruntime.Layouts["go1.26"]
	const addr = 0xc000_1000
	next := func(s *scripted) {
		s.set(theSudogs+uint64(l.SudogWaitLink), theSudogs+sudogSize)
		s.set(theSudogs+sudogSize+uint64(l.SudogC), addr+64)
	}
	g := func(s *scripted, off uintptr, v uint64) { s.set(theG+uint64(off), v) }
	for _, tt := range []struct {
		name, reason string
		change       func(s *scripted) // before the first sudog is read
		want         []uint64
	}{
		{"a lock", "sync.Mutex.Lock", nil, []uint64{addr + 8 - uint64(l.MutexSema)}},
		{"a semaphore", "semacquire", nil, []uint64{addr + 8}},
		{"a channel", "chan receive", nil, []uint64{addr}},
		{"a channel that others wait for", "chan receive", next, []uint64{addr}},
		{"a select", "select", next, []uint64{addr, addr + 64}},
		{"no object", "sleep", nil, nil},
		{"it is being woken", "chan receive", func(s *scripted) { s.set(theSudogs+uint64(l.SudogC), 0) }, nil},
		{"it moves", "chan receive", func(s *scripted) { s.part(theG + uint64(l.GTrackingSeq))[0]++ }, nil},
		{"it waits for another", "chan receive", func(s *scripted) { g(s, l.GWaiting, theSudogs+sudogSize) }, nil},
		{"the collector looks at it", "chan receive", func(s *scripted) { s.part(theG + uint64(l.GStatus))[1] = goruntime.GScan >> 8 }, []uint64{addr}},
		{"it cannot be read", "chan receive", func(s *scripted) { delete(s.parts, theSudogs) }, nil},
	} {
		s := newScripted()
		s.parts[theSudogs] = make([]byte, 2*sudogSize)
		s.part(theG + uint64(l.GWaitReason))[0] = byte(slices.Index(l.Reasons, tt.reason))
		g(s, l.GWaiting, theSudogs)
		s.set(theSudogs+uint64(l.SudogC), addr)
		s.set(theSudogs+uint64(l.SudogElem), addr+8)
		_ = testenv.Must(s.refresh())
		list := []walk{{}}
		testenv.OK(t, s.heads([]int{0}, func(i int, b []byte) { list[0].head = parse(b, l) }))
		testenv.OK(t, s.walks(list, fewTries))
		s.before = func(at uint64) {
			if at == theSudogs && tt.change != nil {
				s.before = nil
				tt.change(s)
			}
		}
		s.objectsOf(list)
		testenv.SameList(t, tt.name, list[0].objects, tt.want)
	}
}

// A collection is noticed by its sweeper, also one that is still to sweep.
func TestCollections(t *testing.T) {
	l := goruntime.Layouts["go1.26"]
	s := newScripted()
	r, _ := scriptedRecorder(t, s, Options{Interval: time.Millisecond})
	count := func() string { a := r.collections(); return fmt.Sprint(r.collections() == a) }
	got := count() // its address is not known
	r.sweeper = theG
	got += " " + count()
	before := r.collections()
	s.part(theG + uint64(l.GTrackingSeq))[0]++
	got += fmt.Sprint(" ", r.collections() == before, " ", count())
	s.part(theG + uint64(l.GStatus))[0] = goruntime.GRunnable
	got += " " + count()
	s.part(theG + uint64(l.GStatus))[0] = goruntime.GWaiting
	testenv.Same(t, "no collection between two looks", got+" "+count(), "false true false true false true")
}

// entry returns where a function of this program begins.
func entry(t *testing.T, f *functions, name string) uint64 {
	t.Helper()
	for pc := f.modules[0].text; pc < f.modules[0].etext; pc += 16 {
		if fn := runtime.FuncForPC(uintptr(pc)); fn != nil && fn.Name() == name {
			return uint64(fn.Entry())
		}
	}
	t.Fatalf("no function %s", name)
	return 0
}

// The scheduler's calls end at the switch to the system stack, or in the middle if no more of the stack is known. In both cases they are
// no goroutine's, also if the register has the next one already.
func TestInterruptedScheduler(t *testing.T) {
	notEmulated(t)
	p := testenv.Must(Open(t.Context(), os.Getpid()))
	f := &p.program.funcs
	at := func(name string) uint64 { return entry(t, f, name) + 8 }
	for _, tt := range []struct {
		calls []string
		root  string
	}{
		{[]string{"runtime.schedule", "runtime.goexit0", "runtime.mcall"}, "runtime.mcall"},
		{[]string{"runtime.schedule"}, "runtime.schedule"},
		{[]string{"runtime.newstack", "runtime.morestack"}, "runtime.morestack"},
		{[]string{"time.Now", "runtime.goexit"}, "runtime.goexit"},
		{[]string{"time.Now"}, ""},
	} {
		var chain []uint64
		for _, name := range tt.calls {
			chain = append(chain, at(name))
		}
		got := f.interrupted(&interrupt{pc: chain[0], sp: 1 << 20, chain: slices.Clone(chain)})
		testenv.FailIf(t, got.root != tt.root || len(got.pcs) != len(chain), "%v: root %q, %d calls", tt.calls, got.root, len(got.pcs))
	}
}

// What a thread was interrupted in on the system stack is of the goroutine to whose stack frame pointers lead, whichever runs there by now.
func TestInterruptedSystemStack(t *testing.T) {
	r := &recorder{Process: newScripted().Process, list: []*known{{}, {}}, spans: []span{{0x1000, 0x2000}, {0x2000, 0x3000}}}
	words := le.AppendUint64(make([]byte, 16), 1<<20+40) // at 1<<20: the second one has the frame pointer of its caller, and that one the base
	words = le.AppendUint64(le.AppendUint64(words, 0), 0)
	for base, want := range map[uint64]*known{0x1000: r.list[0], 0x2ff8: r.list[1], 0x3000: nil} {
		got := r.owner(&thread{}, &interrupt{sp: 1 << 20, fp: 1<<20 + 16, stack: le.AppendUint64(slices.Clone(words), base)}, calls{})
		testenv.Same(t, fmt.Sprintf("%#x", base), got, want)
	}
}

// Frame pointers do not show the caller of a function that has no frame yet. It is on the stack, but where it was called from is beyond what was copied.
func TestInterruptedPrologue(t *testing.T) {
	notEmulated(t)
	p := testenv.Must(Open(t.Context(), os.Getpid()))
	f := &p.program.funcs
	leaf, caller, main, top := entry(t, f, "time.Now"), entry(t, f, "slices.Sort[...]")+8, entry(t, f, "testing.tRunner")+8, entry(t, f, "runtime.goexit")+8
	for first, want := range map[uint64][]uint64{leaf: {leaf + 1, caller, main, top}, main: {leaf + 1, caller}} { // the second is another chain
		x := &interrupt{pc: leaf, sp: 1 << 20, lr: caller, stack: le.AppendUint64(nil, caller), chain: []uint64{first, main, top}}
		testenv.SameList(t, "calls", f.interrupted(x).pcs, want)
	}
}

// CPU time in a system call is shown below the state that the goroutine has meanwhile, as a program's own profile shows it. That of the signals
// of the program's own session is the profiler's.
func TestInterruptedCall(t *testing.T) {
	notEmulated(t)
	r, _ := scriptedRecorder(t, newScripted(), Options{Interval: time.Millisecond})
	r.perf = &perf{inKernel: true}
	r.program.funcs = testenv.Must(Open(t.Context(), os.Getpid())).program.funcs
	r.byG[theG] = &known{}
	f := &r.program.funcs
	pc := entry(t, f, "syscall.Syscall6") + 8
	for _, kernel := range []bool{true, false} {
		r.interrupted(&thread{}, &interrupt{cpu: time.Millisecond, sp: 1 << 20, g: theG, pc: pc, chain: []uint64{pc, entry(t, f, "syscall.Syscall") + 8}, kernel: kernel})
		first, status := r.stacks[string(r.key)].first, r.hits[len(r.hits)-1].status
		testenv.FailIf(t, (first == "[syscall]") != kernel || (status == tachyon.Unknown) != kernel, "in the kernel: %v; below %q, status %v", kernel, first, status)
	}
	f.cache[pc+1] = &place{name: "github.com/gotach/profiler/sampler/internal/native.sigtramp", top: true, ok: true}
	r.interrupted(&thread{}, &interrupt{cpu: time.Millisecond, sp: 1 << 20, g: theG, pc: pc})
	testenv.Same(t, "row of the session's signals", r.hits[len(r.hits)-1].row, rows.Profiler)
}

// A thread is sampled as often as there are ticks, within bounds.
func TestPeriod(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{0: leastPeriod, 7 * time.Millisecond: 7 * time.Millisecond, time.Second: mostPeriod} {
		if p, err := openPerf(os.Getpid(), Options{Interval: interval}); err == nil { // the kernel allows it
			testenv.Prints(t, interval, fmt.Sprint(want, " ", want), p.period, time.Duration(p.attr.Sample))
			p.close()
		}
	}
}
