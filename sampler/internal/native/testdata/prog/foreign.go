package main

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/sampler/internal/native"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// spins is how often the loops go round: some milliseconds.
const spins = 10_000_000

func spinOn(stack uintptr, n uint64)

var heap []uint64

//go:noinline
func onHeap(stack []uint64) { spinOn(uintptr(unsafe.Pointer(&stack[len(stack)-8])), spins) }

//go:noinline
func heapSpinner(stop *atomic.Bool) {
	for heap = make([]uint64, 1<<12); !stop.Load(); {
		onHeap(heap)
	}
}

//go:noinline
func generated(f func(n uint64)) { f(spins) }

//go:noinline
func jitSpinner(stop *atomic.Bool) {
	code := []byte{0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3} // DECQ AX; JNE; RET
	if runtime.GOARCH == "arm64" {
		code = nil
		for _, word := range []uint32{0xd1000400, 0xb5ffffe0, 0xd65f03c0} { // SUB $1, R0; CBNZ R0; RET
			code = binary.LittleEndian.AppendUint32(code, word)
		}
	}
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	copy(m, code)
	if err := unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		panic(err)
	}
	entry := &[1]uintptr{uintptr(unsafe.Pointer(&m[0]))}
	for f := *(*func(n uint64))(unsafe.Pointer(&entry)); !stop.Load(); {
		generated(f)
	}
}

//go:noinline
func blockedSpinner(stop *atomic.Bool) {
	runtime.LockOSThread() // until the goroutine ends, and the thread with it
	mask := ^uint64(0)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
	for n := 1; !stop.Load(); n++ {
		if n%10_000_000 == 0 {
			runtime.Gosched() // nothing else can stop it: the collector, and with one P the other goroutines, wait for it
		}
	}
}

// foreigners counts running samples by what they should be, and the wrong ones.
type foreigners struct {
	counter
	heap, jit, blocks atomic.Int64
}

func (c *foreigners) Sample(s *source.Sample) {
	var names []string
	for _, id := range s.Stack {
		names = append(names, c.frames[id].Func)
	}
	const heap, jit, blocks = "main.heapSpinner", "main.jitSpinner", "main.blockedSpinner"
	is := func(want ...string) bool { return slices.Equal(names, want) }
	notRead := is(tachyon.FuncNotRead, heap) || is(tachyon.FuncNotRead, jit)
	switch {
	case names[0] == "main.spinOn" && s.Goroutine < tachyon.FirstPseudo:
		// Where there is a link register, onHeap is not known.
		if !is("main.spinOn", "main.onHeap", heap) && !is("main.spinOn", tachyon.FuncNoSymbols, heap) && !is("main.spinOn", tachyon.FuncNoSymbols, "main.onHeap", heap) {
			c.bad(s, names)
		} else if s.Status&tachyon.HasGIL != 0 {
			c.heap.Add(1)
		}
	case names[0] == tachyon.FuncNoSymbols && s.Goroutine < tachyon.FirstPseudo:
		if !is(tachyon.FuncNoSymbols, "main.generated", jit) && !is(tachyon.FuncNoSymbols, jit) {
			c.bad(s, names)
		} else if s.Status&tachyon.HasGIL != 0 {
			c.jit.Add(1)
		}
	case is(tachyon.FuncNotRead, blocks) && s.Status&tachyon.HasGIL != 0:
		c.blocks.Add(1)
	case names[0] == tachyon.FuncNotRead && !notRead && s.Goroutine < tachyon.FirstPseudo:
		c.bad(s, names)
	}
}

func (c *foreigners) bad(s *source.Sample, names []string) {
	c.wrong++
	fmt.Println("wrong:", s.Goroutine, s.Status, names)
}

func init() { modes["foreign"] = foreign }

// foreign runs the native source beside code that Go does not know, code on a stack that Go does not know, and
// a thread that blocks its signal. All these goroutines must have samples with the right stacks.
func foreign() {
	c := &foreigners{}
	s := native.New()
	if err := s.Start(source.Config{Rate: 1000, Budget: 50, WaitFrames: true, Start: time.Now()}, c); err != nil {
		fail("Start: %v", err)
	}
	for _, spin := range []struct {
		begin func(stop *atomic.Bool)
		count *atomic.Int64
	}{
		{func(stop *atomic.Bool) { go heapSpinner(stop) }, &c.heap},
		{func(stop *atomic.Bool) { go jitSpinner(stop) }, &c.jit},
		{func(stop *atomic.Bool) { go blockedSpinner(stop) }, &c.blocks},
	} {
		var stop atomic.Bool
		spin.begin(&stop)
		await("samples", func() bool { return spin.count.Load() >= int64(rounds(10, 100)) })
		stop.Store(true)
	}
	s.Stop()
	if c.wrong > 0 {
		fail("%d wrong; heap %d, jit %d, blocked %d", c.wrong, c.heap.Load(), c.jit.Load(), c.blocks.Load())
	}
}
