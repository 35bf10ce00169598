//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
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
				if got := mem.Load64(s.slot(uint64(i))); got != want {
					t.Errorf("%s: slot %d is in state %#x, want %#x", name, i, got, want)
				}
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
	defer unix.Munmap(f.memory)
	f.add(1)
	s := f.s
	s.head, s.tail = 1000, 1000
	f.start(0)
	onTick(s)
	at := s.words(1000)
	if at != s.ring || s.head == 1000 {
		t.Fatalf("the records are %d bytes from the ring's beginning, %d words", at-s.ring, s.head-1000)
	}
	if onTick(s); s.words(1000) != at {
		t.Error("records that the drain has not read have moved")
	}
}
