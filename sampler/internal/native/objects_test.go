//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// things has one object of each kind, inside a bigger struct.
type things struct {
	_     [3]uint64
	mutex sync.Mutex
	_     byte
	rw    sync.RWMutex
	rw2   sync.RWMutex
	group sync.WaitGroup
	_     [5]uint32
	cond  sync.Cond
	c, d  chan int
	full  chan string
}

var global things

// blocked starts goroutines that wait for the objects of t. It returns the object of each goroutine,
// as the sampler should see it, and a function that ends the goroutines.
func (t *things) block(test testing.TB, n int) (want map[uint64]tachyon.Object, free func()) {
	t.c, t.d, t.full = make(chan int), make(chan int, 7), make(chan string, 3)
	t.cond.L = new(sync.Mutex)
	t.mutex.Lock()
	t.rw.Lock()
	t.rw2.RLock()
	t.group.Add(1)
	for range 3 {
		t.full <- ""
	}
	at := func(kind string, p unsafe.Pointer, capacity int64) tachyon.Object {
		o := tachyon.Object{Kind: kind, Addr: uint64(uintptr(p)), Capacity: capacity}
		if t == &global {
			o.Static = 1 // some
		}
		if kind == tachyon.ObjectChannel {
			o.Static = 0
		}
		return o
	}
	c := at(tachyon.ObjectChannel, *(*unsafe.Pointer)(unsafe.Pointer(&t.c)), 0)
	d := at(tachyon.ObjectChannel, *(*unsafe.Pointer)(unsafe.Pointer(&t.d)), 7)
	full := at(tachyon.ObjectChannel, *(*unsafe.Pointer)(unsafe.Pointer(&t.full)), 3)
	kinds := []struct {
		object tachyon.Object
		wait   func()
	}{
		{at(tachyon.ObjectMutex, unsafe.Pointer(&t.mutex), 0), func() { t.mutex.Lock(); t.mutex.Unlock() }},
		{at(tachyon.ObjectRWMutex, unsafe.Pointer(&t.rw), 0), func() { t.rw.Lock(); t.rw.Unlock() }},
		{at(tachyon.ObjectRWMutex, unsafe.Pointer(&t.rw), 0), func() { t.rw.RLock(); t.rw.RUnlock() }},
		{at(tachyon.ObjectRWMutex, unsafe.Pointer(&t.rw2), 0), func() { t.rw2.Lock(); t.rw2.Unlock() }},
		{at(tachyon.ObjectWaitGroup, unsafe.Pointer(&t.group), 0), func() { t.group.Wait() }},
		{at(tachyon.ObjectCond, unsafe.Pointer(&t.cond), 0), func() { t.cond.L.Lock(); t.cond.Wait(); t.cond.L.Unlock() }},
		{c, func() { <-t.c }},
		{d, func() { <-t.d }},
		{full, func() { t.full <- "" }},
		{tachyon.Object{Kind: tachyon.ObjectSelect}, func() {
			select {
			case <-t.c:
			case <-t.d:
			case <-t.d:
			case <-make(chan int):
			case <-(chan int)(nil):
			}
		}},
		{c, func() { // of its channels only one has another goroutine
			select {
			case <-make(chan bool):
			case <-t.c:
			}
		}},
	}
	want = map[uint64]tachyon.Object{}
	var mu sync.Mutex
	var up, ended sync.WaitGroup
	for _, k := range kinds {
		for range n {
			up.Add(1)
			ended.Add(1)
			go func() {
				defer ended.Done()
				mu.Lock()
				want[currentGoid()] = k.object
				mu.Unlock()
				up.Done()
				k.wait()
			}()
		}
	}
	up.Wait()
	waitUntilBlocked(test, want)
	return want, func() {
		t.mutex.Unlock()
		t.rw.Unlock()
		t.rw2.RUnlock()
		t.group.Done()
		t.cond.L.Lock()
		t.cond.Broadcast()
		t.cond.L.Unlock()
		close(t.c)
		close(t.d)
		for range n {
			<-t.full
		}
		ended.Wait()
	}
}

// waitUntilBlocked waits until runtime.Stack says of all goroutines that they wait.
func waitUntilBlocked(t testing.TB, all map[uint64]tachyon.Object) {
	buf := make([]byte, 8<<20)
	for range 1000 {
		state := parseStacks(string(buf[:runtime.Stack(buf, true)]))
		blocked := 0
		for id := range all {
			if p := state[id]; p != nil && p.state != "runnable" && p.state != "running" {
				blocked++
			}
		}
		if blocked == len(all) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the goroutines do not wait")
}

// TestObjects compares what goroutines wait for with the real objects: in a variable of the program
// and in the heap.
func TestObjects(t *testing.T) {
	l, err := layoutOf(runtime.Version())
	if err != nil {
		t.Fatal(err)
	}
	for name, th := range map[string]*things{"static": &global, "heap": new(things)} {
		for _, collected := range []bool{false, true} {
			t.Run(fmt.Sprint(name, collected), func(t *testing.T) {
				testObjects(t, l, th, collected)
			})
		}
	}
}

func testObjects(t *testing.T, l *layout, th *things, collected bool) {
	want, free := th.block(t, 4)
	defer free()
	if collected {
		runtime.GC() // goroutines are walked only once
	}
	r, _ := session(t, source.Config{WaitFrames: true}, func() { time.Sleep(300 * time.Millisecond) })
	numbers := map[string]int32{}
	latest := map[uint64]*taken{}
	for i := range r.samples {
		s := &r.samples[i]
		if _, ok := want[s.goroutine]; ok {
			latest[s.goroutine] = s
		}
		if s.object == nil && s.stack[0].Line > 0 && s.stack[0].File == "" || s.object != nil && s.stack[0].Line != s.object.Number {
			t.Fatalf("%v has the object %+v", s.stack, s.object)
		}
	}
	if len(latest) != len(want) {
		t.Fatalf("%d of %d goroutines have samples", len(latest), len(want))
	}
	members := map[string]int32{}
	for id, s := range latest {
		w := want[id]
		if !l.semaphores && w.Kind != tachyon.ObjectChannel && w.Kind != tachyon.ObjectSelect {
			if s.object != nil {
				t.Errorf("Go %s knows the object of %v", runtime.Version(), s.stack)
			}
			continue
		}
		if s.object == nil {
			t.Errorf("%v has no object, want %+v", s.stack, w)
			continue
		}
		got := s.object.Object
		number := got.Number
		got.Number = 0
		if got.Static != 0 && w.Static != 0 {
			w.Static = got.Static
		}
		if got.Kind == tachyon.ObjectSelect {
			if len(got.Members) != 2 || len(s.object.Of) != 2 {
				t.Fatalf("a select has %+v", got)
			}
			for _, m := range s.object.Of {
				members[fmt.Sprintf("%#x", m.Addr)] = m.Number
			}
			got.Members = nil
		}
		if fmt.Sprint(got) != fmt.Sprint(w) {
			t.Errorf("%v waits for %+v, want %+v", s.stack, got, w)
		}
		key := fmt.Sprintf("%#x", got.Addr)
		if n, ok := numbers[key]; ok && n != number {
			t.Errorf("%s %s has the numbers %d and %d", got.Kind, key, n, number)
		}
		numbers[key] = number
	}
	for addr, n := range members {
		if numbers[addr] != n {
			t.Errorf("the channel at %s has number %d in a set, and number %d", addr, n, numbers[addr])
		}
	}
	all := []int32{}
	for _, n := range numbers {
		all = append(all, n)
	}
	slices.Sort(all)
	if kinds := 9; l.semaphores && !slices.Equal(all, slices.Compact(slices.Clone(all))) || len(all) < 4 || l.semaphores && len(all) != kinds {
		t.Errorf("numbers %v", all)
	}
}

// TestNilChannels checks that a goroutine that waits for a nil channel waits for no object.
func TestNilChannels(t *testing.T) {
	waits := map[string]func(){
		"[chan receive (nil chan)]": func() { <-(chan int)(nil) },
		"[chan send (nil chan)]":    func() { (chan int)(nil) <- 1 },
		"[select (no cases)]":       func() { select {} },
	}
	var mu sync.Mutex
	reason := map[uint64]string{} // these goroutines never end
	const each = 3                // an object has a number only if several goroutines wait for it
	for name, wait := range waits {
		for range each {
			go func() {
				mu.Lock()
				reason[currentGoid()] = name
				mu.Unlock()
				wait()
			}()
		}
	}
	r, _ := session(t, source.Config{WaitFrames: true}, func() {
		for range 1000 {
			time.Sleep(time.Millisecond)
			mu.Lock()
			up := len(reason)
			mu.Unlock()
			if up == each*len(waits) {
				break
			}
		}
		time.Sleep(100 * time.Millisecond)
	})
	mu.Lock()
	defer mu.Unlock()
	found := map[string]bool{}
	for _, s := range r.samples {
		name, ok := reason[s.goroutine]
		if !ok || s.stack[0].Func != name {
			continue // it has not begun to wait
		}
		found[name] = true
		if s.object != nil || s.stack[0].Line != 0 {
			t.Fatalf("%v has the object %+v", s.stack, s.object)
		}
	}
	if len(found) != len(waits) {
		t.Errorf("samples of %v, want %d kinds", found, len(waits))
	}
}
