//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
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
