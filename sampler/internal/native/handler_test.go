//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"golang.org/x/sys/unix"
)

// TestLostSignalIsAnswered simulates a signal that the kernel dropped because the thread had another
// one pending: ours of an earlier tick, or the runtime's. The handler must answer it when the other
// one arrives.
func TestLostSignalIsAnswered(t *testing.T) {
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := mem.ReadWord(mem.Getg() + l.GM)
	ctx := make([]uint64, 128) // a ucontext without valid registers
	for name, come := range map[string]func(s *shared, ctx uintptr) uintptr{
		"its own":       func(s *shared, ctx uintptr) uintptr { return onInterrupt(s, 7<<16|1, ctx) },
		"an earlier":    func(s *shared, ctx uintptr) uintptr { return onInterrupt(s, 6<<16|1, ctx) },
		"another P's":   func(s *shared, ctx uintptr) uintptr { return onInterrupt(s, 9<<16, ctx) },
		"the runtime's": func(s *shared, ctx uintptr) uintptr { onOther(s, ctx); return 0 },
	} {
		for _, asked := range []bool{false, true} {
			memory := testenv.Must(mem.Map(unsafe.Sizeof(shared{}) + 3*slotWords*8 + 16))
			base := memory.Addr()
			s := at(base)
			s.Off, s.nprocs = l.Offsets, 3
			s.slots = base + (unsafe.Sizeof(shared{})+7)&^7
			for i, slot := range []struct {
				state uint64
				tid   int
			}{{8<<8 | slotSent, 1}, {7<<8 | slotSent, unix.Gettid()}, {5 << 8, unix.Gettid()}} {
				mem.Store64(s.slot(uint64(i)), slot.state)
				mem.Store64(s.slot(uint64(i))+slotTID*8, uint64(slot.tid))
				mem.Store64(s.slot(uint64(i))+slotM*8, m)
			}
			if asked {
				s.Off.MSignalPending = l.MProcID // not 0
			}
			ret := come(s, uintptr(unsafe.Pointer(&ctx[0])))
			for i, want := range []uint64{8<<8 | slotSent, 7<<8 | slotFilled, 5 << 8} {
				testenv.Same(t, fmt.Sprint(name, ", slot ", i), mem.Load64(s.slot(uint64(i))), want)
			}
			// Go's handler may be left out only if no signal of the runtime can be lost.
			want := name != "its own" || asked
			testenv.FailIf(t, name != "the runtime's" && (ret != 0) != want, "%s (asked: %v): passed on: %v, want %v", name, asked, ret != 0, want)
			unix.Munmap(memory)
		}
	}
}

// TestTicksKeepNoStep computes the times of ticks for a few seconds, and a program that works for a part
// of each of its own periods. The share of ticks in that part must be right, wherever the part begins.
func TestTicksKeepNoStep(t *testing.T) {
	for _, rate := range []uint64{100, 1000} {
		for _, every := range []uint64{1e6, 10e6} { // ns
			s := &shared{period: 1e9 / rate, random: 0x9e3779b97f4a7c15, found: 1}
			ticks := 4 * rate * max(1, 1000/rate)
			var seen [100]uint64 // by the hundredth of the program's period
			for range ticks {
				next(s)
				s.now = s.deadline
				seen[s.now%every*100/every]++
			}
			testenv.Within(t, fmt.Sprint(rate, " Hz: periods between ticks"), float64(s.now)/float64(ticks*s.period), 0.98, 1.02)
			for from := range seen {
				working := uint64(0)
				for i := range 8 {
					working += seen[(from+i)%100]
				}
				testenv.Within(t, fmt.Sprint(rate, " Hz, ", every, " ns: % of the ticks in 8 % of the time"), 100*float64(working)/float64(ticks), 6, 10)
			}
		}
	}
}

// A tick that finds the ring empty writes at its beginning, and one that does not goes on behind the records that the drain has not read.
func TestRingBeginsAgain(t *testing.T) {
	f := newFakes(t)
	f.add(1)
	s := f.s
	s.head, s.tail = 1000, 1000
	f.start(0)
	onTick(s)
	testenv.Same(t, "place of the records", s.words(1000), s.ring)
	testenv.Same(t, "there are records", s.head > 1000, true)
	onTick(s)
	testenv.Same(t, "place of the records that the drain has not read", s.words(1000), s.ring)
}

// TestOldHandlerStays takes the signal and gives it back many times. There must always be a handler that gets
// the signals that are not ours: the kernel or other code may call our handler at any moment, also while a
// session begins or ends.
func TestOldHandlerStays(t *testing.T) {
	take := func() {
		old := testenv.Must(takeSignal(defaultSignal))
		releaseSignal(defaultSignal, old)
	}
	take()
	var stop atomic.Bool
	none := make(chan int)
	go func() {
		n := 0
		for !stop.Load() {
			if mem.LoadAcquire(uintptr(unsafe.Pointer(&oldHandler))) == 0 {
				n++
			}
		}
		none <- n
	}()
	for range 20_000 {
		take()
	}
	stop.Store(true)
	testenv.Same(t, "times without a handler", <-none, 0)
	testenv.Same(t, "the handler stays", testenv.Must(getAction(defaultSignal)).handler == handlerPC, false)
}

// TestRoom calls Room many times. No thread may be left.
func TestRoom(t *testing.T) {
	count := func() int { return len(testenv.Must(os.ReadDir("/proc/self/task"))) }
	before := count()
	for range 30 {
		testenv.OK(t, Room(Threads))
	}
	after := 0
	testenv.Await(func() bool { after = count(); return after <= before+8 })
	testenv.Within(t, "threads", after, 1, before+8)
}

// TestCyclesPerSecond checks the measurement on a thread that loses its core at random moments, also
// between the readings of clock and counter.
func TestCyclesPerSecond(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		now := 1e9 // ns
		look := func(perNs float64) uint64 {
			v := now * perNs
			if now += 30; random.IntN(20) == 0 {
				now += random.Float64() * 40e6
			}
			return uint64(v)
		}
		clock := func() uint64 { return look(1) }
		counter := func() uint64 { return look(2.5) }
		testenv.Within(t, "Hz", cyclesPerSecond(clock, counter), 2.475e9, 2.525e9)
	}
	cyclesPerSecond(func() uint64 { return 5 }, mem.Cycles) // must return although the clock stands still
}

// TestReleaseEarly releases a source whose preparation failed at its beginning.
func TestReleaseEarly(t *testing.T) {
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	n := New()
	n.patience = cost.NewPatience(cost.CPUOfThread(), true)
	testenv.OK(t, n.share(l))
	testenv.Prints(t, "released, without memory", "true true", n.release(), n.memory == nil)
}

// unseen has the wrong offsets that Start does not find: the name of the field, and +8 or -8 if only this error is not
// found. The value says what a wrong offset does, or why it does no harm.
var unseen = map[string]string{
	"GBubble":       "it is used only for the word (durable) in wait reasons, and no goroutine is in a bubble at Start",
	"GSchedLR":      "amd64 has no link register, and on arm64 it only adds a caller if it is a return address",
	"GWaitSince-8":  "that field is 0 while a goroutine waits, so every visit is a walk",
	"SudogElem-8":   pointer,
	"SudogC-8":      pointer,
	"MAllLink":      "the thread of the runtime's monitor is then not known, and its CPU time has no stack",
	"mAllp":         "it distinguishes the list of Ps from a short-lived copy; if there are both, Start fails",
	"MVDSOSP":       vdso,
	"MVDSOPC":       vdso,
	"ModEText+8":    "the code after Go's code has no functions in the tables",
	"ModNext":       "there is no plugin",
	"ModData":       bounds,
	"ModEData":      bounds,
	"ModEBSS+8":     bounds,
	"PFree":         count,
	"SchedThreads":  count,
	"SchedSystem":   count,
	"SchedFree":     count,
	"SchedFreeBare": count,
	"PollFD":        polls,
	"PollFDSeq":     polls,
	"PollRG":        polls,
	"PollWG":        polls,
}

const (
	pointer = "the word before is the same address as a pointer, since Go 1.26"
	vdso    = "each use compares the two with the stack, and the field is not read where there is a link register"
	count   = "the number of goroutines is then not known, and [not seen] has only what looks have found"
	polls   = "the session does not know which files and connections goroutines wait for, and says so"
	bounds  = "they bound a search, and its result is checked"
)

func init() {
	children["shifted"] = shifted
	if l, err := goruntime.LayoutOf(runtime.Version()); err == nil && !l.Semaphores { // Go 1.25
		for _, name := range []string{"SudogElem", "MutexSema", "RwWriterSema", "RwReaderSema", "GroupSema", "CondNotify"} {
			unseen[name] = "this version does not say for which semaphore a goroutine waits"
		}
	}
}

// shift is an error of by bytes in a field of the layout's offsets.
type shift struct {
	name string
	at   uintptr // of the field
	by   int
}

// shifts returns the errors to try: none at first, then each offset too high by a word; at night also too low.
func shifts() []shift {
	list := []shift{{"none", 0, 0}}
	fields := reflect.TypeFor[goruntime.Offsets]()
	for _, by := range []int{8, -8}[:testenv.Times(1, 2)] {
		for i := range fields.NumField() {
			f := fields.Field(i)
			list = append(list, shift{fmt.Sprintf("%s%+d", f.Name, by), f.Offset, by})
		}
	}
	return list
}

const shiftChildren = 10 // some checks wait for a second until they give up

// shifted runs sources with one wrong offset in the layout each, beginning with the shift of the given number and leaving
// out those of other children. It prints a line for each, and ends early if a source could not give back its memory.
func shifted() {
	var from int
	fmt.Sscan(os.Getenv("GOTACH_SHIFT"), &from)
	right := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	for list := shifts(); from < len(list) && !busy.Load(); from += shiftChildren {
		bad := *right
		*(*uintptr)(unsafe.Add(unsafe.Pointer(&bad.Offsets), list[from].at)) += uintptr(list[from].by)
		goruntime.Layouts["go0.0"] = &bad
		fmt.Println(tryLayout(list[from].by != 0))
	}
}

// tryLayout says whether Start refuses the layout of go0.0. If not, it samples some ticks and collections, which stop
// the world.
func tryLayout(fallback bool) string {
	s := New()
	s.version = "go0.0"
	r := newRecorder()
	if err := s.Start(source.Config{Rate: 1000, Budget: 20, Start: time.Now(), Fallback: fallback}, r); err != nil {
		return "refused: " + err.Error()
	}
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
			_ = time.Now()
			runtime.Gosched()
		}
	}()
	for end := time.Now().Add(time.Second); s.Progress().TicksReached < 10 && time.Now().Before(end); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	s.Stop()
	stop.Store(true)
	return fmt.Sprint("sampled ", len(r.samples), r.Err, " ", s.Progress().FarEndsUnknown)
}

// TestShiftedLayout makes each offset wrong by one word. Start must find that, or unseen must have the field. The program
// must not hang or end.
func TestShiftedLayout(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	var all sync.WaitGroup
	for from := range shiftChildren {
		all.Go(func() { testShifts(t, shifts(), from) })
	}
	all.Wait()
}

func testShifts(t *testing.T, list []shift, from int) {
	for from < len(list) {
		out, err := child(t, "shifted", "GOMAXPROCS=2", fmt.Sprint("GOTACH_SHIFT=", from))
		if err != nil || out == "" {
			t.Errorf("from %s on: %v\n%s", list[from].name, err, out)
			return
		}
		for result := range strings.Lines(out) {
			name := list[from].name
			listed := name == "none" || unseen[name]+unseen[name[:len(name)-2]] != ""
			sampled, refused := strings.HasPrefix(result, "sampled "), strings.HasPrefix(result, "refused: ") && (strings.Contains(result, "go0.0: ") || !strings.Contains(result, " P's timers "))
			known := strings.HasSuffix(strings.TrimSpace(result), "<nil>") // the far ends
			testenv.FailIf(t, sampled && (!listed || strings.HasPrefix(name, "Poll") == known) || !sampled && (!refused || name == "none"), "%s: %s", name, result)
			from += shiftChildren
		}
	}
}

// TestProbe has signals to threads that the runtime has asked for preemption, and to others.
func TestProbe(t *testing.T) {
	f := newFakes(t)
	s := f.s
	p, m := uint64(f.g(3)), f.g(0)
	s.nprocs, s.procs = 1, uintptr(unsafe.Pointer(&p))
	s.Off.MSignalPending, s.Off.MProcID, s.Off.PM = 8, 32, 0
	mem.Store64(f.g(3), uint64(m))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range []struct{ pending, tid, asked, other uint64 }{
		{0, 0, 0, 1},
		{1, 1, 0, 1}, // the P is another thread's
		{1, 0, 1, 1},
	} {
		mem.Store64(m+8, c.pending)
		mem.Store64(m+32, uint64(unix.Gettid())+c.tid)
		noteProbe(s)
		testenv.Prints(t, c, fmt.Sprint(c.asked, c.other), s.probeAsked, s.probeOther)
	}
	testenv.Same(t, "the M of a thread that was preempted", s.askedM, uint64(m))
}
