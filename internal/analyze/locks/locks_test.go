package locks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
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
	return testenv.Must(Find(analyzetest.SamplesOf(r.T, stream.Options{Objects: true}, f), o))
}

// text is a line for each lock: what it is, its waits, and where the first one is.
func text(l *Locks) string {
	out := "\n"
	for _, x := range l.Locks {
		s := x.Sites[0]
		out += fmt.Sprintf("%s %s %d*%d %s [%d]: %v (%v by site), %d of %d, at most %v; %d at %s:%d %s %d %v\n", x.Kind, x.Name, x.Object, x.Objects, x.Address, x.Capacity,
			x.Waited, x.BySite, x.Waits, x.Goroutines, x.Longest, len(x.Sites), s.Func, s.Line, s.Reason, s.Waits, s.Waited)
	}
	return out
}

// A wait for a semaphore of the runtime is in the list of locks, unless it is the collector's.
func TestCollectorWaits(t *testing.T) {
	r := analyzetest.Record(t)
	r.Every(1000, 1000, 10_000, 1, 0, append(analyzetest.WaitFor("semacquire", 0), analyzetest.Place("runtime.semacquire1", 1), analyzetest.Place("main.acquire", 4))...)
	r.Every(1000, 1000, 10_000, 2, 0, append(analyzetest.WaitFor("semacquire", 0), analyzetest.Place("runtime.semacquire1", 1), analyzetest.Place("runtime.gcStart", 2), analyzetest.Place("main.alloc", 3))...)
	testenv.Same(t, "locks", text(locksOf(r, Options{})), `
semaphore semaphore in main.acquire 0*0  [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.acquire:4 semacquire 1 10ms
`)
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
	testenv.Same(t, "waited for locks", l.Waited, 61*time.Millisecond)
	testenv.Same(t, "locks", text(l), `
sync.Mutex example.com/v2.1.mu 3*0 0x5000 [0]: 21ms (10ms by site), 3 of 1, at most 10ms; 1 at main.f:9 sync.Mutex.Lock 3 21ms
sync.Mutex c.mu 0*0  [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.(*cache).get:4 sync.Mutex.Lock 1 10ms
sync.Mutex c.mu 1*0 0xc000010000 [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.(*cache).get:4 sync.Mutex.Lock 1 10ms
sync.Mutex c.mu 2*0 0xc000020000 [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.(*cache).get:4 sync.Mutex.Lock 1 10ms
sync.RWMutex main.tables+8 4*0 0x6008 [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.g:9 sync.RWMutex.RLock 1 10ms
chan c.jobs 5*0 0xc000030000 [3]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.(*cache).get:5 chan receive 1 10ms
sync.WaitGroup group 0*0  [0]: 10ms (0s by site), 2 of 1, at most 9ms; 1 at main.(*cache).get:6 sync.WaitGroup.Wait 2 10ms
`)
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
	testenv.Same(t, "locks", text(l), `
sync.Mutex Mutex in store.(*cache[go.shape.int]).get 1*0 0xc000010000 [0]: 1ms (0s by site), 1 of 1, at most 1ms; 1 at example.com/app/store.(*cache[go.shape.int]).get:4 sync.Mutex.Lock 1 1ms
chan channel in main.send 5*0  [0]: 1ms (0s by site), 1 of 1, at most 1ms; 1 at main.send:4 chan send 1 1ms
select select of channel in main.send, channel 6 7*0  [0]: 1ms (0s by site), 1 of 1, at most 1ms; 1 at main.loop:4 select 1 1ms
`)
}

// A writer that waits for another writer waits for the Mutex in a RWMutex.
func TestLockOfWriters(t *testing.T) {
	r := analyzetest.Record(t)
	r.Add(1, 1000, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 1), analyzetest.Place("sync.(*RWMutex).Lock", 150), analyzetest.Place("main.write", 4))...)
	r.Add(2, 1000, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 0), analyzetest.Place("sync.(*RWMutex).Lock", 150), analyzetest.Place("main.other", 4))...)
	l := locksOf(r, Options{Source: readLockSource}, tachyon.Object{Number: 1, Kind: tachyon.ObjectRWMutex, Addr: 0xc000010000})
	testenv.Same(t, "locks", text(l), `
sync.RWMutex RWMutex in main.other 0*0  [0]: 1ms (0s by site), 1 of 1, at most 1ms; 1 at main.other:4 sync.Mutex.Lock 1 1ms
sync.RWMutex RWMutex in main.write 1*0 0xc000010000 [0]: 1ms (0s by site), 1 of 1, at most 1ms; 1 at main.write:4 sync.Mutex.Lock 1 1ms
`)
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
		for _, x := range testenv.Must(Find(s, Options{Source: c.read})).Locks {
			names = append(names, x.Name)
		}
		testenv.Same(t, "names", strings.Join(names, "; "), c.want)
	}
}
