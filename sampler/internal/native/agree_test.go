//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
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

// waits are ways to wait. Each function calls up once just before it waits, and returns after stop
// is closed.
var waits = map[string]func(up func(), stop chan struct{}){
	"chan receive": func(up func(), stop chan struct{}) { up(); <-stop },
	"chan send": ended(func() (wait, end func()) {
		c := make(chan int)
		return func() { c <- 1 }, func() { <-c }
	}),
	"select": func(up func(), stop chan struct{}) {
		up()
		select {
		case <-stop:
		case <-make(chan int):
		}
	},
	"sync.Mutex.Lock": ended(func() (wait, end func()) {
		m := new(sync.Mutex)
		m.Lock()
		return func() { m.Lock() }, m.Unlock
	}),
	"sync.RWMutex.RLock": ended(func() (wait, end func()) {
		m := new(sync.RWMutex)
		m.Lock()
		return func() { m.RLock() }, m.Unlock
	}),
	"sync.RWMutex.Lock": ended(func() (wait, end func()) {
		m := new(sync.RWMutex)
		m.RLock()
		return func() { m.Lock() }, m.RUnlock
	}),
	"sync.WaitGroup.Wait": ended(func() (wait, end func()) {
		w := new(sync.WaitGroup)
		w.Add(1)
		return func() { w.Wait() }, w.Done
	}),
	"sync.Cond.Wait": ended(func() (wait, end func()) {
		c := sync.NewCond(new(sync.Mutex))
		c.L.Lock() // Wait unlocks it
		return func() { c.Wait() }, func() { c.L.Lock(); c.Signal(); c.L.Unlock() }
	}),
	"sleep": func(up func(), stop chan struct{}) {
		up()
		for {
			time.Sleep(time.Second)
			select {
			case <-stop:
				return
			default:
			}
		}
	},
	"IO wait": ended(func() (wait, end func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		return func() { l.Accept() }, func() { l.Close() }
	}),
	"syscall": ended(func() (wait, end func()) {
		var p [2]int
		if err := syscall.Pipe(p[:]); err != nil {
			panic(err)
		}
		return func() { syscall.Read(p[0], make([]byte, 1)); syscall.Close(p[0]) }, func() { syscall.Close(p[1]) }
	}),
	"coroutine": func(up func(), stop chan struct{}) {
		next, done := iter.Pull(func(yield func(int) bool) { <-stop })
		defer done()
		up()
		next()
	},
}

// ended makes a way to wait of one that another goroutine ends.
func ended(way func() (wait, end func())) func(up func(), stop chan struct{}) {
	return func(up func(), stop chan struct{}) {
		wait, end := way()
		go func() { <-stop; end() }()
		up()
		wait()
	}
}

// forever are ways to wait that never end.
var forever = map[string]func(up func()){
	"chan receive (nil chan)": func(up func()) { up(); <-(chan int)(nil) },
	"chan send (nil chan)":    func(up func()) { up(); (chan int)(nil) <- 1 },
	"select (no cases)":       func(up func()) { up(); select {} },
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

// printed is the text of runtime.Stack for one goroutine.
type printed struct {
	state              string
	funcs              []string
	places             []string
	createdBy, created string
	parent             uint64
}

var headerPattern = regexp.MustCompile(`^goroutine (\d+) \[([^\],]*)`)

// parseStacks parses the output of runtime.Stack(all).
func parseStacks(text string) map[uint64]*printed {
	all := map[uint64]*printed{}
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(block, "\n")
		m := headerPattern.FindStringSubmatch(lines[0])
		id, _ := strconv.ParseUint(m[1], 10, 64)
		p := &printed{}
		p.state, _, _ = strings.Cut(m[2], " labels:")
		for i := 1; i+1 < len(lines); i += 2 {
			place, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
			if rest, ok := strings.CutPrefix(lines[i], "created by "); ok {
				by, parent, _ := strings.Cut(rest, " in goroutine ")
				p.createdBy, p.created = by, place
				p.parent, _ = strconv.ParseUint(parent, 10, 64)
				continue
			}
			name := lines[i][:strings.LastIndexByte(lines[i], '(')]
			p.funcs = append(p.funcs, name)
			p.places = append(p.places, place)
		}
		all[id] = p
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
	// start starts a goroutine that waits at some depth. f calls its argument just before it waits.
	start := func(kind string, depth int, f func(up func())) {
		started.Add(1)
		w := way{kind, strconv.Itoa(depth)}
		go pprof.Do(context.Background(), pprof.Labels("kind", w.kind, "depth", w.depth), func(context.Context) {
			deeper(depth, func() {
				f(func() {
					mu.Lock()
					mine[currentGoid()] = w
					mu.Unlock()
					started.Done()
				})
			})
		})
	}
	kinds := slices.Sorted(maps.Keys(waits))
	for i := range 25 * len(kinds) {
		kind := kinds[i%len(kinds)]
		all.Add(1)
		start(kind, i/len(kinds)*8/5, func(up func()) { defer all.Done(); waits[kind](up, stop) })
	}
	for kind, f := range forever {
		start(kind, 7, f)
	}
	started.Wait()

	buf := make([]byte, 16<<20)
	stacks := func() map[uint64]*printed { return parseStacks(string(buf[:runtime.Stack(buf, true)])) }
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
	var before, after map[uint64]*printed
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
		if p.state != w.kind || p.state != q.state || !slices.Equal(p.places, q.places) {
			t.Fatalf("%v: runtime.Stack says %+v, then %+v", w, p, q)
		}
		if got := s.stack[0]; got != (tachyon.Frame{Func: "[" + w.kind + "]", Line: got.Line}) {
			t.Fatalf("%v: wait frame is %+v, runtime.Stack says %q", w, got, p.state)
		}
		var funcs, places []string
		for _, f := range s.stack[1:] {
			if !goruntime.Hidden(f.Func) {
				funcs = append(funcs, f.Func)
				places = append(places, place(f.File, int(f.Line)))
			}
		}
		if !slices.Equal(funcs, p.funcs) || !slices.Equal(places, p.places) {
			t.Fatalf("%v: sampled\n%s\nprinted\n%s", w, strings.Join(places, "\n"), strings.Join(p.places, "\n"))
		}
		told := r.told[s.goroutine]
		if told.CreatedBy != p.createdBy || told.CreatedAt != p.created || told.Parent != p.parent {
			t.Fatalf("%v: created by %+v, runtime.Stack says %s in %d at %s", w, told, p.createdBy, p.parent, p.created)
		}
	}
	testenv.Same(t, fmt.Sprint("could be compared: ", compared), len(compared), len(waits)+len(forever))
	for id, w := range mine {
		if l := r.labels[id]; len(l) != 1 || l[0]["kind"] != w.kind || l[0]["depth"] != w.depth {
			t.Fatalf("%v: labels are %v", w, l)
		}
	}
}
