package analyze

import (
	"testing"
	"time"

	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// waitFor is the innermost frames of a goroutine that waits for an object.
func waitFor(reason string, number int32) []tachyon.Frame {
	method := map[string]string{
		"sync.Mutex.Lock": "sync.(*Mutex).Lock", "sync.RWMutex.Lock": "sync.(*RWMutex).Lock", "sync.RWMutex.RLock": "sync.(*RWMutex).RLock",
		"sync.WaitGroup.Wait": "sync.(*WaitGroup).Wait", "sync.Cond.Wait": "sync.(*Cond).Wait",
	}[reason]
	list := []tachyon.Frame{{Func: "[" + reason + "]", Line: number}}
	if method != "" {
		list = append(list, place(method, 46))
	}
	return list
}

// lockSource is the text of the functions that wait in these tests.
const lockSource = `package main

func (c *cache) get() {
	c.mu.Lock()
	<-c.jobs
	group.Wait()
}
`

func readLockSource(name string) *source.File {
	if name != "/home/u/app/main.(*cache).get.go" {
		return nil
	}
	return &source.File{Text: []byte(lockSource)}
}

func (r *recording) locks(o LockOptions, objects ...tachyon.Object) *Locks {
	r.t.Helper()
	r.objects = objects
	f := r.finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	l := must(FindLocks(samplesOf(r.t, stream.Options{Objects: true}, f), o))(r.t)
	return l
}

func findLock(t *testing.T, l *Locks, name string) *Lock {
	t.Helper()
	for i := range l.Locks {
		if l.Locks[i].Name == name {
			return &l.Locks[i]
		}
	}
	t.Fatalf("no lock %s: %+v", name, l.Locks)
	return nil
}

func TestLockWaits(t *testing.T) {
	r := record(t)
	get := func(line int32) tachyon.Frame { return place("main.(*cache).get", line) }
	wait := func(g, at uint64, frames ...tachyon.Frame) { r.add(g, at, 0, frames...) }
	for at := uint64(1000); at <= 10_000; at += 1000 {
		wait(1, at, append(waitFor("sync.Mutex.Lock", 1), get(4))...)             // in the source
		wait(2, at, append(waitFor("sync.Mutex.Lock", 2), get(4))...)             // another one of the same type
		wait(3, at, append(waitFor("sync.Mutex.Lock", 3), place("main.f", 9))...) // a variable
		wait(4, at, append(waitFor("sync.RWMutex.RLock", 4), place("main.g", 9))...)
		wait(5, at, append(waitFor("chan receive", 5), get(5))...)
		wait(6, at, append(waitFor("sync.WaitGroup.Wait", 0), get(6))...)
		wait(7, at, append(waitFor("sync.Mutex.Lock", 0), place("main.f", 9))...) // the only number at this line is 3
		wait(8, at, append(waitFor("sync.Mutex.Lock", 0), get(4))...)             // 1 or 2
		r.add(9, at, running, place("main.f", 9))
	}
	wait(3, 11_000, place("main.f", 10))
	wait(3, 12_000, append(waitFor("sync.Mutex.Lock", 3), place("main.f", 9))...)
	l := r.locks(LockOptions{Source: readLockSource},
		tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000},
		tachyon.Object{Number: 2, Kind: tachyon.ObjectMutex, Addr: 0xc000020000},
		tachyon.Object{Number: 3, Kind: tachyon.ObjectMutex, Addr: 0x5000, Static: 0x5000, Symbol: "example.com/v2%2e1.mu"},
		tachyon.Object{Number: 4, Kind: tachyon.ObjectRWMutex, Addr: 0x6008, Static: 0x6008, Symbol: "main.tables", Offset: 8},
		tachyon.Object{Number: 5, Kind: tachyon.ObjectChannel, Addr: 0xc000030000, Capacity: 3},
	)
	if want := 61 * time.Millisecond; l.Waited != want {
		t.Errorf("waited %v for locks, want %v", l.Waited, want)
	}
	if x := l.Locks[0]; x.Name != "example.com/v2.1.mu" || x.Object != 3 || x.Waited != 21*time.Millisecond || x.BySite != 10*time.Millisecond || x.Waits != 3 ||
		x.Longest != 10*time.Millisecond || len(x.Sites) != 1 || x.Sites[0].Waits != 3 || x.Goroutines != 1 {
		t.Errorf("the first one is %+v", x)
	}
	count := 0
	for _, x := range l.Locks {
		if x.Name == "c.mu" {
			count++
			if x.Waited != 10*time.Millisecond || x.Kind != tachyon.ObjectMutex || (x.Object == 1) != (x.Address == "0xc000010000") {
				t.Errorf("%+v", x)
			}
		}
	}
	if count != 3 {
		t.Errorf("%d locks have the name c.mu, want those with the numbers 1 and 2 and the one without", count)
	}
	if x := findLock(t, l, "main.tables+8"); x.Kind != tachyon.ObjectRWMutex || x.Sites[0].Reason != "sync.RWMutex.RLock" {
		t.Errorf("%+v", x)
	}
	if x := findLock(t, l, "c.jobs"); x.Capacity != 3 || x.IsLock() || x.Sites[0].Line != 5 {
		t.Errorf("%+v", x)
	}
	findLock(t, l, "group")
	for i := range l.Locks {
		if i > 0 && l.Locks[i].IsLock() && !l.Locks[i-1].IsLock() {
			t.Error("locks are not first")
		}
	}
}

// Without source, objects in the heap are named after functions.
func TestLockNamesWithoutSource(t *testing.T) {
	r := record(t)
	stack := append(waitFor("sync.Mutex.Lock", 1), place("example.com/app/store.(*cache[go.shape.int]).get", 4))
	r.add(1, 1000, 0, stack...)
	r.add(1, 2000, 0, append(waitFor("select", 7), place("main.loop", 4))...)
	r.add(2, 2000, 0, append(waitFor("chan send", 5), place("main.send", 4))...)
	l := r.locks(LockOptions{Source: readLockSource}, tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000},
		tachyon.Object{Number: 7, Kind: tachyon.ObjectSelect, Members: []int32{5, 6}})
	findLock(t, l, "Mutex in store.(*cache[go.shape.int]).get")
	findLock(t, l, "channel in main.send")
	findLock(t, l, "select of channel in main.send, channel 6")
}

// A writer that waits for another writer waits for the Mutex in a RWMutex.
func TestLockOfWriters(t *testing.T) {
	r := record(t)
	r.add(1, 1000, 0, append(waitFor("sync.Mutex.Lock", 1), place("sync.(*RWMutex).Lock", 150), place("main.write", 4))...)
	r.add(2, 1000, 0, append(waitFor("sync.Mutex.Lock", 0), place("sync.(*RWMutex).Lock", 150), place("main.other", 4))...)
	l := r.locks(LockOptions{Source: readLockSource}, tachyon.Object{Number: 1, Kind: tachyon.ObjectRWMutex, Addr: 0xc000010000})
	if len(l.Locks) != 2 || l.Locks[0].Kind != tachyon.ObjectRWMutex || l.Locks[1].Kind != tachyon.ObjectRWMutex || l.Locks[0].Sites[0].Line != 4 {
		t.Errorf("%+v", l.Locks)
	}
}
