//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
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
		var c crowded
		r, _ := session(t, source.Config{WaitFrames: waitFrames}, func() {
			for range 5 {
				startCrowd(&c, &c)
				c.left.Wait()
			}
		})
		const in = "github.com/gotach/profiler/sampler/internal/native."
		seen := map[string]int{}
		runnable := 0
		for _, s := range r.samples {
			if s.status != tachyon.GILRequested || !strings.HasPrefix(r.told[s.goroutine].CreatedBy, in) {
				continue
			}
			stack := names(s.stack)
			if !waitFrames {
				if stack[0][0] == '[' {
					t.Fatalf("%q has a frame that was turned off", stack)
				}
				continue
			}
			switch stack[0] {
			case "[runnable, not started]":
				f := s.stack[1]
				if len(stack) != 2 || f.Line == 0 || !strings.HasSuffix(f.File, "_test.go") {
					t.Fatalf("%q at %s:%d", stack, f.File, f.Line)
				}
				seen[strings.TrimPrefix(f.Func, in)]++
			case "[runnable]":
				runnable++
				if len(stack) == 2 && stack[1] == "runtime.goexit1" {
					break // the function has returned: the goroutine was preempted where goexit1 begins
				}
				if n := len(stack); n < 3 || strings.Contains(fmt.Sprint(stack), "gowrap") {
					t.Fatalf("%q", stack)
				}
			default:
				t.Fatalf("a runnable goroutine's stack is %q", stack)
			}
		}
		t.Log(seen, runnable)
		if !waitFrames {
			continue
		}
		want := map[string]bool{"(*crowded).Plain": true, "(*crowded).method": true, "(*crowded).inlined": true,
			"startCrowd": true, "startCrowd.func1": true, "startCrowd.func3": true}
		for name := range want {
			if seen[name] == 0 {
				t.Errorf("no goroutine was seen that waited to begin with %s: %v", name, seen)
			}
		}
		for name := range seen {
			if !want[name] {
				t.Errorf("a goroutine begins with %s", name)
			}
		}
		if runnable == 0 && runtime.GOMAXPROCS(0) > 1 {
			t.Error("no goroutine was seen that had run and waited for a P")
		}
	}
}
