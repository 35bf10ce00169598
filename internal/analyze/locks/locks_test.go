package locks

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

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

func locksOf(r *analyzetest.Recording, o Options, objects ...tachyon.Object) *Locks {
	r.T.Helper()
	r.Objects = objects
	f := r.Finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	l := analyzetest.Must(Find(analyzetest.SamplesOf(r.T, stream.Options{Objects: true}, f), o))(r.T)
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

// A wait for a semaphore of the runtime is in the list of locks, unless it is the collector's.
func TestCollectorWaits(t *testing.T) {
	r := analyzetest.Record(t)
	for at := uint64(1000); at <= 10_000; at += 1000 {
		r.Add(1, at, 0, append(analyzetest.WaitFor("semacquire", 0), analyzetest.Place("runtime.semacquire1", 1), analyzetest.Place("main.acquire", 4))...)
		r.Add(2, at, 0, append(analyzetest.WaitFor("semacquire", 0), analyzetest.Place("runtime.semacquire1", 1), analyzetest.Place("runtime.gcStart", 2), analyzetest.Place("main.alloc", 3))...)
	}
	if l := locksOf(r, Options{}); len(l.Locks) != 1 || l.Locks[0].Name != "semaphore in main.acquire" || l.Locks[0].Waited != 10*time.Millisecond {
		t.Errorf("%+v", l)
	}
}

func TestLockWaits(t *testing.T) {
	r := analyzetest.Record(t)
	get := func(line int32) tachyon.Frame { return analyzetest.Place("main.(*cache).get", line) }
	wait := func(g, at uint64, frames ...tachyon.Frame) { r.Add(g, at, 0, frames...) }
	for at := uint64(1000); at <= 10_000; at += 1000 {
		wait(1, at, append(analyzetest.WaitFor("sync.Mutex.Lock", 1), get(4))...)                         // in the source
		wait(2, at, append(analyzetest.WaitFor("sync.Mutex.Lock", 2), get(4))...)                         // another one of the same type
		wait(3, at, append(analyzetest.WaitFor("sync.Mutex.Lock", 3), analyzetest.Place("main.f", 9))...) // a variable
		wait(4, at, append(analyzetest.WaitFor("sync.RWMutex.RLock", 4), analyzetest.Place("main.g", 9))...)
		wait(5, at, append(analyzetest.WaitFor("chan receive", 5), get(5))...)
		wait(6, at, append(analyzetest.WaitFor("sync.WaitGroup.Wait", 0), get(6))...)
		wait(7, at, append(analyzetest.WaitFor("sync.Mutex.Lock", 0), analyzetest.Place("main.f", 9))...) // the only number at this line is 3
		wait(8, at, append(analyzetest.WaitFor("sync.Mutex.Lock", 0), get(4))...)                         // 1 or 2
		r.Add(9, at, analyzetest.Running, analyzetest.Place("main.f", 9))
	}
	wait(3, 11_000, analyzetest.Place("main.f", 10))
	wait(3, 12_000, append(analyzetest.WaitFor("sync.Mutex.Lock", 3), analyzetest.Place("main.f", 9))...)
	l := locksOf(r, Options{Source: readLockSource},
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
	r := analyzetest.Record(t)
	stack := append(analyzetest.WaitFor("sync.Mutex.Lock", 1), analyzetest.Place("example.com/app/store.(*cache[go.shape.int]).get", 4))
	r.Add(1, 1000, 0, stack...)
	r.Add(1, 2000, 0, append(analyzetest.WaitFor("select", 7), analyzetest.Place("main.loop", 4))...)
	r.Add(2, 2000, 0, append(analyzetest.WaitFor("chan send", 5), analyzetest.Place("main.send", 4))...)
	l := locksOf(r, Options{Source: readLockSource}, tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000},
		tachyon.Object{Number: 7, Kind: tachyon.ObjectSelect, Members: []int32{5, 6}})
	findLock(t, l, "Mutex in store.(*cache[go.shape.int]).get")
	findLock(t, l, "channel in main.send")
	findLock(t, l, "select of channel in main.send, channel 6")
}

// A writer that waits for another writer waits for the Mutex in a RWMutex.
func TestLockOfWriters(t *testing.T) {
	r := analyzetest.Record(t)
	r.Add(1, 1000, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 1), analyzetest.Place("sync.(*RWMutex).Lock", 150), analyzetest.Place("main.write", 4))...)
	r.Add(2, 1000, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 0), analyzetest.Place("sync.(*RWMutex).Lock", 150), analyzetest.Place("main.other", 4))...)
	l := locksOf(r, Options{Source: readLockSource}, tachyon.Object{Number: 1, Kind: tachyon.ObjectRWMutex, Addr: 0xc000010000})
	if len(l.Locks) != 2 || l.Locks[0].Kind != tachyon.ObjectRWMutex || l.Locks[1].Kind != tachyon.ObjectRWMutex || l.Locks[0].Sites[0].Line != 4 {
		t.Errorf("%+v", l.Locks)
	}
}

// Locks of one name are told apart by the function that waits for them, if the source does not tell their type.
func TestLocksOfOneName(t *testing.T) {
	r := analyzetest.Record(t)
	for g := range uint64(4) {
		object := int32(1 + g/2)
		function := []string{"example.org/a.(*Server).get", "example.org/b.(*Server).put"}[g/2]
		r.Every(1000, 1000, 100_000, 10+g, 0, tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: object}, analyzetest.Place("sync.(*Mutex).Lock", 1), analyzetest.Place(function, 4))
	}
	r.Objects = []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex}, {Number: 2, Kind: tachyon.ObjectMutex}}
	text := map[string]string{
		"example.org/a.(*Server).get": "package a\n\nfunc (s *Server) get() {\n\ts.mu.Lock()\n}\n",
		"example.org/b.(*Server).put": "package b\n\nfunc (s *Queue) put() {\n\ts.mu.Lock()\n}\n",
	}
	read := func(name string) *source.File {
		for function, text := range text {
			if strings.Contains(name, function) {
				return &source.File{Text: []byte(text)}
			}
		}
		return nil
	}
	s := r.Close()
	for _, c := range []struct {
		read func(string) *source.File
		want string
	}{
		{nil, "Mutex in a.(*Server).get; Mutex in b.(*Server).put"},
		{read, "s.mu of a.Server; s.mu of b.Queue"},
	} {
		names := []string{}
		for _, x := range analyzetest.Must(Find(s, Options{Source: c.read}))(t).Locks {
			names = append(names, x.Name)
		}
		if got := strings.Join(names, "; "); got != c.want {
			t.Errorf("names: %s, want %s", got, c.want)
		}
	}
}
