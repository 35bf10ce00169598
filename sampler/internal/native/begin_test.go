//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// crowded is what the goroutines of TestNotStarted do.
type crowded struct{ left sync.WaitGroup }

var turns atomic.Int64

//go:noinline
func (c *crowded) method(n int) { c.busy(n) }

//go:noinline
func (c *crowded) Plain() { c.busy(1) }

func (c *crowded) inlined(n int) { c.busy(n) }

//go:noinline
func (c *crowded) busy(n int) {
	for range 2 {
		for end := time.Now().Add(1500 * time.Microsecond); time.Now().Before(end); {
			turns.Add(int64(n))
		}
		runtime.Gosched() // from here it waits for a P behind all others, and has run
	}
	c.left.Done()
}

type busier interface{ method(int) }

//go:noinline
func startCrowd(c *crowded, b busier) {
	for range 20 {
		c.left.Add(7)
		go c.Plain()                                   // a call without arguments but the receiver
		go c.method(2)                                 // a call
		go c.inlined(3)                                // its body becomes part of the wrapper
		go b.method(4)                                 // which method it is, the code does not say
		go func() { c.busy(5) }()                      // no wrapper
		go func(n int) { c.busy(n) }(6)                // a closure: the code does not say which
		go func(c *crowded, n int) { c.busy(n) }(c, 7) // a function
	}
}

// TestNotStarted starts more goroutines than there are Ps. Those that have not run yet are shown with
// the function that the go statement calls, those that have run with their stack.
func TestNotStarted(t *testing.T) {
	for _, waitFrames := range []bool{true, false} {
		const in = "github.com/gotach/profiler/sampler/internal/native."
		var mu sync.Mutex
		seen := map[string]int{} // by function, or "" if the goroutine has run
		r := newRecorder()
		r.keep = func(s *taken) bool {
			if s.status != tachyon.GILRequested || !strings.HasPrefix(r.told[s.goroutine].CreatedBy, in) {
				return false
			}
			name := ""
			if s.stack[0].Func == "[runnable, not started]" {
				name = strings.TrimPrefix(s.stack[len(s.stack)-1].Func, in)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[name]++
			return true
		}
		want := []string{"", "(*crowded).Plain", "(*crowded).method", "(*crowded).inlined", "startCrowd", "startCrowd.func1", "startCrowd.func3"}
		if !waitFrames {
			want = want[:1]
		}
		missing := func() string {
			mu.Lock()
			defer mu.Unlock()
			for _, name := range want {
				if seen[name] == 0 {
					return "no goroutine was seen that waited for a P with " + name
				}
			}
			return ""
		}
		sessionWith(t, source.Config{WaitFrames: waitFrames}, r, func() {
			testenv.Await(func() bool {
				var c crowded
				startCrowd(&c, &c)
				c.left.Wait()
				return missing() == ""
			})
		})
		if why := missing(); why != "" {
			t.Error(why)
		}
		for _, s := range r.samples {
			stack := names(s.stack)
			switch first := stack[0]; {
			case !waitFrames:
				if first[0] == '[' {
					t.Fatalf("%q has a frame that was turned off", stack)
				}
			case first == "[runnable, not started]":
				f := s.stack[1]
				if len(stack) != 2 || f.Line == 0 || !strings.HasSuffix(f.File, "_test.go") || !slices.Contains(want, strings.TrimPrefix(f.Func, in)) {
					t.Fatalf("%q at %s:%d", stack, f.File, f.Line)
				}
			case first != "[runnable]":
				t.Fatalf("a runnable goroutine's stack is %q", stack)
			case len(stack) == 2 && stack[1] == "runtime.goexit1":
				// The function has returned: the goroutine was preempted where goexit1 begins.
			case len(stack) == 2 && stack[1] != in+"startCrowd" && slices.Contains(append(want, "startCrowd.func2"), strings.TrimPrefix(stack[1], in)):
				// It was preempted where it begins. (Of func2, "not started" says startCrowd only.)
			case len(stack) < 3 || strings.Contains(fmt.Sprint(stack), "gowrap"):
				t.Fatalf("%q", stack)
			}
		}
	}
}

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
