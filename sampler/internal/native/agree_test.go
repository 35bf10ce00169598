//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"fmt"
	"iter"
	"net"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// waits returns ways to wait, which end after stop is closed. All of a kind wait for the same object where they can.
func waits(stop chan struct{}) map[string]func() {
	var mutex sync.Mutex
	var written sync.RWMutex
	var group sync.WaitGroup
	var pipe [2]int
	var sleepers atomic.Int64
	cond := sync.NewCond(new(sync.Mutex))
	mutex.Lock()
	written.Lock()
	group.Add(1)
	testenv.Must(0, syscall.Pipe(pipe[:]))
	atEnd := func(f func()) { go func() { <-stop; f() }() }
	atEnd(func() {
		mutex.Unlock()
		written.Unlock()
		group.Done()
		syscall.Close(pipe[1])
		cond.L.Lock()
		cond.Broadcast()
		cond.L.Unlock()
	})
	return map[string]func(){
		"chan receive":        func() { <-stop },
		"sync.Mutex.Lock":     func() { mutex.Lock(); mutex.Unlock() },
		"sync.RWMutex.RLock":  func() { written.RLock(); written.RUnlock() },
		"sync.WaitGroup.Wait": func() { group.Wait() },
		"sync.Cond.Wait":      func() { cond.L.Lock(); cond.Wait(); cond.L.Unlock() },
		"syscall":             func() { syscall.Read(pipe[0], make([]byte, 1)) },
		"sync.RWMutex.Lock": func() {
			m := new(sync.RWMutex)
			m.RLock()
			atEnd(m.RUnlock)
			m.Lock()
		},
		"chan send": func() {
			c := make(chan int)
			atEnd(func() { <-c })
			c <- 1
		},
		"select": func() {
			select {
			case <-stop:
			case <-make(chan int):
			}
		},
		"sleep": func() {
			nap := time.Duration(150+10*sleepers.Add(1)) * time.Millisecond // not all wake up at once
			for ended := false; !ended; {
				time.Sleep(nap)
				select {
				case <-stop:
					ended = true
				default:
				}
			}
		},
		"IO wait": func() {
			l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
			atEnd(func() { l.Close() })
			l.Accept()
		},
		"coroutine": func() {
			next, done := iter.Pull(func(yield func(int) bool) { <-stop })
			defer done()
			next()
		},
	}
}

// forever are ways to wait that never end.
var forever = map[string]func(){
	"chan receive (nil chan)": func() { <-(chan int)(nil) },
	"chan send (nil chan)":    func() { (chan int)(nil) <- 1 },
	"select (no cases)":       func() { select {} },
}

// deeper calls f below some more frames, by turns through an interface, a closure and a generic
// function.
func deeper(n int, f func()) {
	switch {
	case n == 0:
		f()
	case n%3 == 0:
		_ = fmt.Stringer(through{n - 1, f}).String()
	case n%3 == 1:
		func() { deeper(n-1, f) }()
	default:
		generic(n-1, f)
	}
}

type through struct {
	n int
	f func()
}

func (t through) String() string { deeper(t.n, t.f); return "" }

func generic[T int | uint8](n T, f func()) { deeper(int(n), f) }

// printed is the text of runtime.Stack for one goroutine, without arguments and offsets.
type printed struct{ state, stack string }

var (
	headerPattern   = regexp.MustCompile(`^goroutine (\d+) \[([^\],]*)`)
	variablePattern = regexp.MustCompile(`(?m)\([^()]*\)$| \+0x[0-9a-f]+$`)
)

// parseStacks parses the output of runtime.Stack(all).
func parseStacks(text string) map[uint64]printed {
	all := map[uint64]printed{}
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		header, stack, _ := strings.Cut(block, "\n")
		m := headerPattern.FindStringSubmatch(header)
		id, _ := strconv.ParseUint(m[1], 10, 64)
		state, _, _ := strings.Cut(m[2], " labels:")
		all[id] = printed{state, variablePattern.ReplaceAllString(stack, "")}
	}
	return all
}

// TestAgreesWithStack parks some hundred goroutines in many ways and compares their samples with the
// text of runtime.Stack.
func TestAgreesWithStack(t *testing.T) {
	stop := make(chan struct{})
	var all, started sync.WaitGroup
	var mu sync.Mutex
	type way struct{ kind, depth string }
	mine := map[uint64]way{}
	// start starts a goroutine that waits at some depth.
	start := func(kind string, depth int, wait func()) {
		started.Add(1)
		w := way{kind, strconv.Itoa(depth)}
		go pprof.Do(context.Background(), pprof.Labels("kind", w.kind, "depth", w.depth), func(context.Context) {
			mu.Lock()
			mine[currentGoid()] = w
			mu.Unlock()
			started.Done()
			deeper(depth, wait)
		})
	}
	ways := waits(stop)
	for kind, wait := range ways {
		for i := range 12 {
			all.Add(1)
			start(kind, i*7/2, func() { defer all.Done(); wait() })
		}
	}
	for kind, wait := range forever {
		start(kind, 7, wait)
	}
	started.Wait()

	buf := make([]byte, 16<<20)
	stacks := func() map[uint64]printed { return parseStacks(string(buf[:runtime.Stack(buf, true)])) }
	testenv.Await(func() bool { // all of them wait
		now := stacks()
		for id, w := range mine {
			if now[id].state != w.kind && w.kind != "sleep" {
				return false
			}
		}
		return true
	})

	const enough = 2
	var round, seen atomic.Int64 // seen: how many of them had enough samples in a round, both rounds added up
	type key struct {
		goroutine uint64
		round     int64
	}
	samples := map[key]int{}
	r := newRecorder()
	r.keep = func(s *taken) bool {
		if _, ok := mine[s.goroutine]; !ok {
			return false
		}
		k := key{s.goroutine, round.Load()}
		if samples[k]++; samples[k] == enough {
			seen.Add(1)
		}
		return samples[k] <= enough
	}
	var before, after map[uint64]printed
	sessionWith(t, source.Config{WaitFrames: true}, r, func() {
		before = stacks()
		testenv.Await(func() bool { return seen.Load() == int64(len(mine)) })
		runtime.GC() // from here on, goroutines that do not run are not walked again
		round.Store(1)
		testenv.Await(func() bool { return seen.Load() == 2*int64(len(mine)) })
		after = stacks()
	})
	close(stop)
	all.Wait()
	testenv.Same(t, "goroutines that have enough samples", seen.Load(), 2*int64(len(mine)))

	compared := map[string]bool{}
	for _, s := range r.samples {
		w, p, q := mine[s.goroutine], before[s.goroutine], after[s.goroutine]
		if w.kind == "sleep" && (p.state != w.kind || q.state != w.kind || s.status&^tachyon.Moved != 0 || s.stack[0].Func != "[sleep]") {
			continue // it wakes up now and then
		}
		compared[w.kind] = true
		testenv.Same(t, "what runtime.Stack says at first and then", p, q)
		testenv.Same(t, "state", p.state, w.kind)
		got := s.stack[0]
		testenv.StopIf(t, got != (tachyon.Frame{Func: "[" + w.kind + "]", Line: got.Line}), "%v: wait frame is %+v, runtime.Stack says %q", w, got, p.state)
		var stack strings.Builder
		for _, f := range s.stack[1:] {
			if !goruntime.Hidden(f.Func) {
				fmt.Fprintf(&stack, "%s\n\t%s\n", f.Func, place(f.File, int(f.Line)))
			}
		}
		told := r.Told[s.goroutine]
		fmt.Fprintf(&stack, "created by %s in goroutine %d\n\t%s", told.CreatedBy, told.Parent, told.CreatedAt)
		testenv.Same(t, w, stack.String(), p.stack)
	}
	testenv.Same(t, fmt.Sprint("could be compared: ", compared), len(compared), len(ways)+len(forever))
	for id, w := range mine {
		testenv.Prints(t, "labels", fmt.Sprintf("[map[depth:%s kind:%s]]", w.depth, w.kind), r.Sets[id])
	}
}
