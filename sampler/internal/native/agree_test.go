//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"os"
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

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// waits are ways to wait. Each function calls up once just before it waits, and returns after stop
// is closed.
var waits = map[string]func(up func(), stop chan struct{}){
	"chan receive": func(up func(), stop chan struct{}) { up(); <-stop },
	"chan send": func(up func(), stop chan struct{}) {
		c := make(chan int)
		go func() { <-stop; <-c }()
		up()
		c <- 1
	},
	"select": func(up func(), stop chan struct{}) {
		up()
		select {
		case <-stop:
		case <-make(chan int):
		}
	},
	"sync.Mutex.Lock": func(up func(), stop chan struct{}) {
		var m sync.Mutex
		m.Lock()
		go func() { <-stop; m.Unlock() }()
		up()
		m.Lock()
	},
	"sync.RWMutex.RLock": func(up func(), stop chan struct{}) {
		var m sync.RWMutex
		m.Lock()
		go func() { <-stop; m.Unlock() }()
		up()
		m.RLock()
	},
	"sync.RWMutex.Lock": func(up func(), stop chan struct{}) {
		var m sync.RWMutex
		m.RLock()
		go func() { <-stop; m.RUnlock() }()
		up()
		m.Lock()
	},
	"sync.WaitGroup.Wait": func(up func(), stop chan struct{}) {
		var w sync.WaitGroup
		w.Add(1)
		go func() { <-stop; w.Done() }()
		up()
		w.Wait()
	},
	"sync.Cond.Wait": func(up func(), stop chan struct{}) {
		var m sync.Mutex
		c := sync.NewCond(&m)
		done := false
		go func() { <-stop; m.Lock(); done = true; m.Unlock(); c.Signal() }()
		m.Lock()
		defer m.Unlock()
		up()
		for !done {
			c.Wait()
		}
	},
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
	"IO wait": func(up func(), stop chan struct{}) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		go func() { <-stop; l.Close() }()
		up()
		l.Accept()
	},
	"syscall": func(up func(), stop chan struct{}) {
		var p [2]int
		if err := syscall.Pipe(p[:]); err != nil {
			panic(err)
		}
		go func() { <-stop; syscall.Close(p[1]) }()
		up()
		syscall.Read(p[0], make([]byte, 1))
		syscall.Close(p[0])
	},
	"coroutine": func(up func(), stop chan struct{}) {
		next, done := iter.Pull(func(yield func(int) bool) { <-stop })
		defer done()
		up()
		next()
	},
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
		if m == nil {
			continue
		}
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

// TestAgreesWithStack parks a thousand goroutines in many ways and compares their samples with the
// text of runtime.Stack.
func TestAgreesWithStack(t *testing.T) {
	stop := make(chan struct{})
	var all, started sync.WaitGroup
	var mu sync.Mutex
	mine := map[uint64]string{}
	begin := func(kind string, depth int, f func(up func())) {
		all.Add(1)
		started.Add(1)
		labels := pprof.Labels("kind", kind, "depth", strconv.Itoa(depth))
		go func() {
			defer all.Done()
			pprof.Do(context.Background(), labels, func(context.Context) {
				deeper(depth, func() {
					f(func() {
						mu.Lock()
						mine[currentGoid()] = fmt.Sprint(kind, "/", depth)
						mu.Unlock()
						started.Done()
					})
				})
			})
		}()
	}
	kinds := slices.Sorted(maps.Keys(waits))
	for i := range 1000 {
		kind := kinds[i%len(kinds)]
		if kind == "syscall" && i > 300 {
			kind = "select" // fewer of the kind that needs a thread for each goroutine
		}
		begin(kind, i/len(kinds)%40, func(up func()) { waits[kind](up, stop) })
	}
	started.Wait()
	for kind, f := range forever {
		started.Add(1)
		go deeper(7, func() {
			f(func() {
				mu.Lock()
				mine[currentGoid()] = kind + "/7"
				mu.Unlock()
				started.Done()
			})
		})
	}
	started.Wait()

	buf := make([]byte, 64<<20)
	stacks := func() map[uint64]*printed { return parseStacks(string(buf[:runtime.Stack(buf, true)])) }
	testenv.Await(func() bool { // all of them wait
		now := stacks()
		for id, kind := range mine {
			if state, _, _ := strings.Cut(kind, "/"); now[id].state != state && state != "sleep" {
				return false
			}
		}
		return true
	})

	var before, after map[uint64]*printed
	r := newRecorder()
	const enough = 20
	var round, seen atomic.Int64 // seen: how many of them had enough samples in a round, both rounds added up
	type key struct {
		goroutine uint64
		round     int64
	}
	samples := map[key]int{}
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
	r, stats := sessionWith(t, source.Config{WaitFrames: true}, r, func() {
		before = stacks()
		testenv.Await(func() bool { return seen.Load() == int64(len(mine)) })
		runtime.GC() // from here on, goroutines that do not run are not walked again
		round.Store(1)
		testenv.Await(func() bool { return seen.Load() == 2*int64(len(mine)) })
		after = stacks()
	})
	close(stop)
	all.Wait()
	t.Logf("%d goroutines, %d samples, %+v", len(mine), len(r.samples), stats)

	checked := map[string]int{}
	for _, s := range r.samples {
		kind := mine[s.goroutine]
		p := before[s.goroutine]
		if q := after[s.goroutine]; p == nil || q == nil || p.state != q.state || !slices.Equal(p.places, q.places) {
			continue // sleeping goroutines wake up
		}
		state, _, _ := strings.Cut(kind, "/")
		if state == "sleep" && (s.status&^tachyon.Moved != 0 || s.stack[0].Func != "[sleep]") {
			continue // the goroutine wakes up
		}
		if p.state != state {
			t.Fatalf("%s: runtime.Stack says %q", kind, p.state)
		}
		if got := s.stack[0]; got != (tachyon.Frame{Func: "[" + p.state + "]", Line: got.Line}) {
			t.Fatalf("%s: wait frame is %+v, runtime.Stack says %q", kind, got, p.state)
		}
		var funcs, places []string
		for _, f := range s.stack[1:] {
			if !hidden(f.Func) {
				funcs = append(funcs, f.Func)
				places = append(places, place(f.File, int(f.Line)))
			}
		}
		if !slices.Equal(funcs, p.funcs) || !slices.Equal(places, p.places) {
			t.Fatalf("%s: sampled\n%s\nprinted\n%s", kind, strings.Join(places, "\n"), strings.Join(p.places, "\n"))
		}
		told := r.told[s.goroutine]
		if told.CreatedBy != p.createdBy || told.CreatedAt != p.created || told.Parent != p.parent {
			t.Fatalf("%s: created by %+v, runtime.Stack says %s in %d at %s", kind, told, p.createdBy, p.parent, p.created)
		}
		checked[state]++
	}
	for kind := range waits {
		if checked[kind] < 100 {
			t.Errorf("only %d samples of %s could be compared", checked[kind], kind)
		}
	}
	for kind := range forever {
		if checked[kind] < enough {
			t.Errorf("no sample of %s could be compared", kind)
		}
	}
	for id, kind := range mine {
		state, depth, _ := strings.Cut(kind, "/")
		if _, ok := forever[state]; ok {
			continue
		}
		l := r.labels[id]
		if len(l) != 1 || l[0]["kind"] != state || l[0]["depth"] != depth {
			t.Fatalf("%s: labels are %v", kind, l)
		}
	}
}

func TestMain(m *testing.M) {
	// qemu-user does not have process_vm_readv, so tests under it read memory with plain loads.
	plainReads = os.Getenv("GOTACH_PLAIN_READS") == "1"
	if name := os.Getenv("GOTACH_NATIVE_CHILD"); name != "" {
		children[name]()
		os.Exit(0)
	}
	code := m.Run()
	removeBuilds()
	os.Exit(code)
}
