//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// things has one object of each kind, inside a bigger struct.
type things struct {
	_       [3]uint64
	mutex   sync.Mutex
	_       byte
	rw, rw2 sync.RWMutex
	group   sync.WaitGroup
	_       [5]uint32
	cond    sync.Cond
}

var global things

// objectText returns what identifies an object, without its number.
func objectText(o *source.Object) string {
	if o == nil {
		return ""
	}
	addrs := []uint64{o.Addr}
	for _, member := range o.Of {
		addrs = append(addrs, member.Addr)
	}
	slices.Sort(addrs)
	return fmt.Sprintf("%s %#x, capacity %d, static %v", o.Kind, addrs, o.Capacity, o.Static != 0)
}

// wait starts goroutines that wait for the objects of t to the end of the process, some for each. It notes in want what
// each goroutine waits for.
func (t *things) wait(want map[uint64]string) {
	c, d, full := make(chan int), make(chan int, 7), make(chan string, 1)
	full <- ""
	t.cond.L = new(sync.Mutex)
	t.mutex.Lock()
	t.rw.Lock()
	t.rw2.RLock()
	t.group.Add(1)
	object := func(kind string, p unsafe.Pointer, capacity int64) *source.Object {
		o := tachyon.Object{Kind: kind, Addr: uint64(uintptr(p)), Capacity: capacity}
		if t == &global && kind != tachyon.ObjectChannel {
			o.Static = 1 // some
		}
		return &source.Object{Object: o}
	}
	first := object(tachyon.ObjectChannel, *(*unsafe.Pointer)(unsafe.Pointer(&c)), 0)
	second := object(tachyon.ObjectChannel, *(*unsafe.Pointer)(unsafe.Pointer(&d)), 7)
	both := &source.Object{Object: tachyon.Object{Kind: tachyon.ObjectSelect}, Of: []*source.Object{first, second}}
	some(want, object(tachyon.ObjectMutex, unsafe.Pointer(&t.mutex), 0), t.mutex.Lock)
	some(want, object(tachyon.ObjectRWMutex, unsafe.Pointer(&t.rw), 0), t.rw.Lock)
	some(want, object(tachyon.ObjectRWMutex, unsafe.Pointer(&t.rw), 0), t.rw.RLock)
	some(want, object(tachyon.ObjectRWMutex, unsafe.Pointer(&t.rw2), 0), t.rw2.Lock)
	some(want, object(tachyon.ObjectWaitGroup, unsafe.Pointer(&t.group), 0), t.group.Wait)
	some(want, object(tachyon.ObjectCond, unsafe.Pointer(&t.cond), 0), func() { t.cond.L.Lock(); t.cond.Wait() })
	some(want, first, func() { <-c })
	some(want, second, func() { <-d })
	some(want, object(tachyon.ObjectChannel, *(*unsafe.Pointer)(unsafe.Pointer(&full)), 1), func() { full <- "" })
	some(want, both, func() {
		select {
		case <-c:
		case <-d:
		case <-d:
		case <-make(chan int):
		case <-(chan int)(nil):
		}
	})
	some(want, first, func() { // of its channels only one has another goroutine
		select {
		case <-make(chan bool):
		case <-c:
		}
	})
	some(want, nil, func() { <-(chan int)(nil) })
	some(want, nil, func() { (chan int)(nil) <- 1 })
	some(want, nil, func() { select {} })
}

// some starts four goroutines that wait for an object.
func some(want map[uint64]string, object *source.Object, wait func()) {
	for range 4 {
		one(want, objectText(object), wait)
	}
}

// one starts a goroutine that waits, and notes what for.
func one(want map[uint64]string, object string, wait func()) {
	id := make(chan uint64)
	go func() {
		id <- currentGoid()
		wait()
	}()
	want[<-id] = object
}

// TestObjects compares what goroutines wait for with the real objects: in a variable of the program and in the heap.
// The second session walks the goroutines only once, because a collection has stamped them. Equal objects have
// equal numbers and different ones different numbers. Who waits for a nil channel waits for no object.
func TestObjects(t *testing.T) {
	if !alone(t) {
		return // the goroutines do not end
	}
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	want := map[uint64]string{}
	global.wait(want)
	new(things).wait(want)
	if !l.Semaphores { // this version says it only of channels
		for id, object := range want {
			if !strings.HasPrefix(object, tachyon.ObjectChannel+" ") && !strings.HasPrefix(object, tachyon.ObjectSelect+" ") {
				want[id] = ""
			}
		}
	}
	awaitObjects(t, func(s *taken) {
		testenv.FailIf(t, s.object == nil && s.stack[0].Line > 0 && s.stack[0].File == "" || s.object != nil && s.stack[0].Line != s.object.Number, "%v has the object %+v", s.stack, s.object)
	}, func(latest map[uint64]taken) []string { return wrongObjects(want, latest) })
}

// awaitObjects samples in two sessions until nothing is wrong with the latest sample of each goroutine.
func awaitObjects(t *testing.T, each func(*taken), check func(latest map[uint64]taken) (wrong []string)) {
	t.Helper()
	for range 2 {
		var mu sync.Mutex
		var wrong []string
		latest := map[uint64]taken{}
		watch(t, source.Config{WaitFrames: true}, func(s *taken) {
			mu.Lock()
			defer mu.Unlock()
			each(s)
			x := *s
			x.object = copyOf(s.object) // the drain changes its own
			latest[s.goroutine] = x
		}, func() {
			testenv.Await(func() bool {
				mu.Lock()
				defer mu.Unlock()
				wrong = check(latest)
				return len(wrong) == 0
			})
		})
		testenv.Same(t, "what is wrong", strings.Join(wrong, "\n"), "")
		runtime.GC()
	}
}

func copyOf(o *source.Object) *source.Object {
	if o == nil {
		return nil
	}
	c := *o
	c.Of = slices.Clone(o.Of)
	for i, member := range c.Of {
		c.Of[i] = copyOf(member)
	}
	return &c
}

// wrongObjects says which objects and numbers are not as they should be.
func wrongObjects(want map[uint64]string, latest map[uint64]taken) (wrong []string) {
	numbers, objects := map[string]int32{}, map[int32]string{}
	note := func(o *source.Object) {
		d := objectText(o)
		if n, ok := numbers[d]; ok && n != o.Number {
			wrong = append(wrong, fmt.Sprintf("%s has the numbers %d and %d", d, n, o.Number))
		}
		if other, ok := objects[o.Number]; ok && other != d {
			wrong = append(wrong, fmt.Sprintf("%s and %s have the number %d", d, other, o.Number))
		}
		numbers[d], objects[o.Number] = o.Number, d
	}
	for id, object := range want {
		s, ok := latest[id]
		if got := objectText(s.object); !ok || got != object || s.stack[0].Func[0] != '[' {
			wrong = append(wrong, fmt.Sprintf("%v waits for %q, want %q", s.stack, got, object))
		} else if s.object != nil {
			note(s.object)
			for _, member := range s.object.Of {
				note(member)
			}
		}
	}
	return wrong
}

// TestTurnAfterCollection has a collection between turns. In the turn that finds it nothing is known about the order.
func TestTurnAfterCollection(t *testing.T) {
	d := &drain{image: &goruntime.Image{}}
	d.objects = d.newObjects()
	next := func() uint64 { d.objects.Turn(d.objects.Now+time.Second, d.cycles.count()); return d.objects.Cycle }
	testenv.Await(func() bool { next(); return next() != 0 }) // no collection by another cause between two turns
	before := d.objects.Cycle
	runtime.GC()
	testenv.Same(t, "the turn after a collection", next(), 0)
	testenv.Await(func() bool { return next() != 0 })
	testenv.Same(t, "the cycle before is that after it", before == d.objects.Cycle, false)
}

// TestStackBesideData checks which words are part of a stack's key. For a running goroutine, data next to
// return addresses does not change the stack, but an address of code does.
func TestStackBesideData(t *testing.T) {
	l, img := testenv.Must(goruntime.LayoutOf(runtime.Version())), testenv.Must(goruntime.FindImage(handlerPC))
	table := testenv.Must(goruntime.FindFuncTable(img, l, handlerPC))
	st := newStacks(newRecorder(), table.L, table, false)
	var here [1]uintptr
	runtime.Callers(1, here[:])
	find := func(sp0, sp1 uint64) *stack {
		r := make(record, headWords+1)
		r[0] = goruntime.GRunning<<32 | flagRunning<<48
		r[headCounts], r[headWords] = 1, uint64(here[0])
		r[headSP0], r[headSP1] = sp0, sp1
		return st.find(r)
	}
	none := find(0, 0)
	for _, data := range []uint64{1, 4095, 4096, 0xc000012345, 1 << 63, ^uint64(0), uint64(here[0])} {
		code := data == uint64(here[0])
		testenv.Prints(t, fmt.Sprintf("another stack with the data %#x", data), fmt.Sprint(code, code), find(data, 0) != none, find(0, data) != none)
	}
}
