//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
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
			if want := name != "its own" || asked; name != "the runtime's" && (ret != 0) != want {
				t.Errorf("%s (asked: %v): passed on: %v, want %v", name, asked, ret != 0, want)
			}
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
			if mean := float64(s.now) / float64(ticks*s.period); mean < 0.98 || mean > 1.02 {
				t.Errorf("%d Hz: ticks are %.3f periods apart", rate, mean)
			}
			for from := range seen {
				working := uint64(0)
				for i := range 8 {
					working += seen[(from+i)%100]
				}
				if share := 100 * float64(working) / float64(ticks); share < 6 || share > 10 {
					t.Errorf("%d Hz: %.1f %% of the ticks are in the 8 %% of %v that begin at %d %%", rate, share, time.Duration(every), from)
				}
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
	at := s.words(1000)
	if at != s.ring || s.head == 1000 {
		t.Fatalf("the records are %d bytes from the ring's beginning, %d words", at-s.ring, s.head-1000)
	}
	onTick(s)
	testenv.Same(t, "place of the records that the drain has not read", s.words(1000), at)
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
	if n := <-none; n > 0 {
		t.Errorf("seen without a handler %d times", n)
	}
	if a, err := getAction(defaultSignal); err != nil || a.handler == handlerPC {
		t.Errorf("the action is %+v, %v", a, err)
	}
}

// TestRoom calls Room many times. No thread may be left.
func TestRoom(t *testing.T) {
	count := func() int {
		list := testenv.Must(os.ReadDir("/proc/self/task"))
		return len(list)
	}
	before := count()
	for range 30 {
		testenv.OK(t, Room(Threads))
	}
	after := 0
	testenv.Await(func() bool { after = count(); return after <= before+8 })
	if after > before+8 {
		t.Errorf("%d threads before, %d after", before, after)
	}
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
		if got := cyclesPerSecond(clock, counter); got < 2.475e9 || got > 2.525e9 {
			t.Fatalf("%.3f GHz, want 2.5", float64(got)/1e9)
		}
	}
	cyclesPerSecond(func() uint64 { return 5 }, mem.Cycles) // must return although the clock stands still
}

// TestReleaseEarly releases a source whose preparation failed at its beginning.
func TestReleaseEarly(t *testing.T) {
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	n := New()
	n.patience = cost.NewPatience(cost.CpuOfThread(), true)
	testenv.OK(t, n.share(l))
	if !n.release() || n.memory != nil {
		t.Error("the source still has memory")
	}
}
