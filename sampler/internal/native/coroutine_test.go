//go:build linux && (amd64 || arm64)

package native

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
)

// TestCoroutine walks the stack of a coroutine that is switched all the time between two stops, by writes in the
// order of runtime.coroswitch_m. All PCs of a record must be of the same stop.
func TestCoroutine(t *testing.T) {
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	const frames, size, text = 60, 1 << 13, 1 << 32
	memory := testenv.Must(mem.Map(unsafe.Sizeof(shared{}) + 2*size + ringWords*8))
	defer unix.Munmap(memory)
	s := at(memory.Addr())
	g := s.base() + (unsafe.Sizeof(shared{})+7)&^7
	lo := g + size
	s.ring = lo + size
	s.Off, s.waits, s.random, s.tornAfter = l.Offsets, l.WaitSets(), 1, 1<<40
	s.Program = goruntime.Code{Text: text, Etext: text + 1<<16}
	reason := uint32(slices.Index(l.Reasons, "coroutine"))
	word := (g + l.GWaitReason) &^ 3
	mem.Store32(word, mem.Load32(word)|reason<<(8*(g+l.GWaitReason-word)))
	mem.Store64(g+l.GID, 7)
	mem.Store64(g+l.GStackLo, uint64(lo))
	mem.Store64(g+l.GStackHi, uint64(lo+size))
	mem.Store64(g+l.GSchedSP, uint64(lo+64))
	mem.Store64(g+l.GSchedPC, text+1)
	mem.Store64(g+l.GSchedBP, uint64(lo+64))
	frame := func(i uintptr) uintptr { return lo + 64 + i*64 }
	for i := range uintptr(frames) {
		mem.Store64(frame(i), uint64(frame(i+1)))
	}
	mem.Store64(frame(frames), 0)
	stopAt := func(stop uint64) {
		for i := uintptr(frames); i > 0; i-- {
			mem.Store64(frame(i-1)+8, text+uint64(i)*16+8*stop)
		}
	}
	stopAt(0)
	mem.Store32(g+l.GStatus, goruntime.GWaiting)
	barrier := lo + size - 8
	var end atomic.Bool
	var switcher sync.WaitGroup
	switcher.Go(func() {
		for stop := uint64(1); !end.Load(); stop ^= 1 {
			mem.Swap64(g+l.GM, 1)
			mem.Store32(g+l.GStatus, goruntime.GRunning)
			mem.Swap64(barrier, 0)
			stopAt(stop)
			mem.Swap64(barrier, 0)
			mem.Store32(g+l.GStatus, goruntime.GWaiting)
			mem.Swap64(g+l.GM, 0)
			for from, stay := mem.Cycles(), rand.Uint64N(20_000); mem.Cycles()-from < stay; {
			}
			if runtime.GOMAXPROCS(0) == 1 {
				runtime.Gosched()
			}
		}
	})
	defer switcher.Wait()
	defer end.Store(true)
	s.seenStatus, s.seenGoid = goruntime.GWaiting, 7
	read, bare, changes, last := 0, 0, 0, uint64(0)
	for begin := time.Now(); changes < 50 && time.Since(begin) < 30*time.Second; {
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.Gosched()
		}
		if walkParked(s, g, ^uint64(0)) == 0 {
			continue
		}
		rec := s.words(s.write)
		n := mem.Load64(rec+headCounts*8) & 0xffff
		if n == 0 {
			bare++
			continue
		}
		read++
		first := mem.Load64(rec + (headWords+1)*8)
		if first != last {
			changes++
		}
		last = first
		for i := uintptr(1); i < uintptr(n); i++ {
			if pc := mem.Load64(rec + (headWords+i)*8); n != frames+1 || pc&15 != first&15 {
				t.Fatalf("walk %d: %d PCs, the first is %#x, that of frame %d %#x", read, n, first, i, pc)
			}
		}
	}
	if t.Logf("%d stacks, %d without frames, %d times another", read, bare, changes); changes < 10 {
		t.Error("it has hardly been switched")
	}
}
