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

	"github.com/gotach/profiler/sampler/internal/mem"
)

// TestCoroutine walks the stack of a coroutine that is switched all the time between two stops, by writes in the
// order of runtime.coroswitch_m. All PCs of a record must be of the same stop.
func TestCoroutine(t *testing.T) {
	l, err := layoutOf(runtime.Version())
	if err != nil {
		t.Fatal(err)
	}
	const frames, size, text = 60, 1 << 13, 1 << 32
	memory, err := mem.Map(unsafe.Sizeof(shared{}) + 2*size + ringWords*8)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	s := at(memory.Addr())
	g := s.base() + (unsafe.Sizeof(shared{})+7)&^7
	lo := g + size
	s.ring = lo + size
	s.off, s.waits, s.random, s.tornAfter = l.offsets, l.waitSets(), 1, 1<<40
	s.program = code{text: text, etext: text + 1<<16}
	reason := uint32(slices.Index(l.reasons, "coroutine"))
	word := (g + l.gWaitReason) &^ 3
	mem.Store32(word, mem.Load32(word)|reason<<(8*(g+l.gWaitReason-word)))
	mem.Store64(g+l.gID, 7)
	mem.Store64(g+l.gStackLo, uint64(lo))
	mem.Store64(g+l.gStackHi, uint64(lo+size))
	mem.Store64(g+l.gSchedSP, uint64(lo+64))
	mem.Store64(g+l.gSchedPC, text+1)
	mem.Store64(g+l.gSchedBP, uint64(lo+64))
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
	mem.Store32(g+l.gStatus, gWaiting)
	barrier := lo + size - 8
	var end atomic.Bool
	var switcher sync.WaitGroup
	switcher.Go(func() {
		for stop := uint64(1); !end.Load(); stop ^= 1 {
			mem.Swap64(g+l.gM, 1)
			mem.Store32(g+l.gStatus, gRunning)
			mem.Swap64(barrier, 0)
			stopAt(stop)
			mem.Swap64(barrier, 0)
			mem.Store32(g+l.gStatus, gWaiting)
			mem.Swap64(g+l.gM, 0)
			for from, stay := mem.Cycles(), rand.Uint64N(20_000); mem.Cycles()-from < stay; {
			}
			if runtime.GOMAXPROCS(0) == 1 {
				runtime.Gosched()
			}
		}
	})
	defer switcher.Wait()
	defer end.Store(true)
	s.seenStatus, s.seenGoid = gWaiting, 7
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
