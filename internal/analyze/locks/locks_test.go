package locks

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// lockSource is the text of the functions that wait in these tests.
const lockSource = "package main\n\nfunc (c *cache) get() {\n\tc.mu.Lock()\n\t<-c.jobs\n\tgroup.Wait()\n}\n"

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

// Without source, objects in the heap are named after functions, or after what a library is known to wait for.
func TestLockNamesWithoutSource(t *testing.T) {
	r := analyzetest.Record(t)
	stack := append(analyzetest.WaitFor("sync.Mutex.Lock", 1), analyzetest.Place("example.com/app/store.(*cache[go.shape.int]).get", 4))
	r.Add(1, 1000, 0, stack...)
	r.Add(1, 2000, 0, append(analyzetest.WaitFor("select", 7), analyzetest.Place("main.loop", 4))...)
	r.Add(2, 2000, 0, append(analyzetest.WaitFor("chan send", 5), analyzetest.Place("main.send", 4))...)
	r.Add(3, 1000, 0, append(analyzetest.WaitFor("select", 0), analyzetest.Place("golang.org/x/sync/semaphore.(*Weighted).Acquire", 4))...)
	l := locksOf(r, Options{Source: readLockSource}, tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000},
		tachyon.Object{Number: 7, Kind: tachyon.ObjectSelect, Members: []int32{5, 6}})
	testenv.Same(t, "locks", text(l), `
sync.Mutex Mutex in store.(*cache[go.shape.int]).get 1*0 0xc000010000 [0]: 1ms (0s by site), 1 of 1, at most 1ms; 1 at example.com/app/store.(*cache[go.shape.int]).get:4 sync.Mutex.Lock 1 1ms
select a place in semaphore.Weighted 0*0  [0]: 1ms (0s by site), 1 of 1, at most 1ms; 1 at golang.org/x/sync/semaphore.(*Weighted).Acquire:4 select 1 1ms
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

// Locks of one name are told apart by the function that waits for them, if the source does not tell their type. One that is embedded has its type.
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
	embedded := func(name string) *source.File { // one of them
		f := read(name)
		if f != nil {
			f.Text = bytes.Replace(f.Text, []byte("(s *Server) get() {\n\ts.mu"), []byte("(s *Server) get() {\n\ts"), 1)
		}
		return f
	}
	s := r.Close()
	for _, c := range []struct {
		read func(string) *source.File
		want string
	}{
		{embedded, "s of a.Server; s.mu"},
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

// Three connections have a lock and a channel each. They are one lock and one channel, with the sums of all. Two locks of
// another type stay two, though it is not always known which of them a goroutine waits for.
func TestLockGroups(t *testing.T) {
	r := analyzetest.Record(t)
	var objects []tachyon.Object
	for n := range int32(3) {
		objects = append(objects,
			tachyon.Object{Number: 10 + n, Kind: tachyon.ObjectMutex, Addr: 0xc000010000 + 64*uint64(n)},
			tachyon.Object{Number: 20 + n, Kind: tachyon.ObjectChannel, Addr: 0xc000020000 + 64*uint64(n)},
			tachyon.Object{Number: 30 + n, Kind: tachyon.ObjectSelect, Members: []int32{40 + n, 50 + n}})
	}
	objects = append(objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000030000}, tachyon.Object{Number: 2, Kind: tachyon.ObjectMutex, Addr: 0xc000030040})
	for at := uint64(1000); at <= 10_000; at += 1000 {
		for n := range int32(3) {
			r.Add(uint64(10+n), at, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 10+n), analyzetest.Place("main.(*cache).get", 4))...)
			r.Add(uint64(20+n), at, 0, append(analyzetest.WaitFor("chan receive", 20+n), analyzetest.Place("main.(*cache).get", 5))...)
			r.Add(uint64(30+n), at, 0, append(analyzetest.WaitFor("select", 30+n), analyzetest.Place("main.loop", 7))...)
			if n < 2 {
				r.Add(uint64(40+n), at, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 1+n), analyzetest.Place("main.twice", 9))...)
			} else { // for one of these two
				r.Add(50, at, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 0), analyzetest.Place("main.twice", 9))...)
			}
		}
	}
	// One goroutine waits for each of the locks. It counts once.
	for n := range int32(3) {
		at := 20_000 + 2000*uint64(n)
		r.Add(60, at, analyzetest.Running, analyzetest.Place("main.f", 1))
		r.Add(60, at+1000, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 10+n), analyzetest.Place("main.f", 2))...)
	}
	l := locksOf(r, Options{Source: readLockSource, Channels: true}, objects...)
	g := l.Group()
	testenv.Same(t, "objects", len(l.Locks), 12)
	var waited, sum time.Duration
	for i := range l.Locks {
		waited += l.Locks[i].Waited
	}
	for i := range g.Locks {
		x := &g.Locks[i]
		sum += x.Waited
		h := x.Holder
		testenv.FailIf(t, h != nil && h.Seen+h.Inferred+h.Unknown != x.Waited, "%s waited %v: %+v", x.Name, x.Waited, h)
	}
	testenv.Same(t, "time in groups", [2]time.Duration{sum, g.Waited}, [2]time.Duration{waited, l.Waited})
	testenv.Same(t, "groups", text(g), `
sync.Mutex c.mu 0*3  [0]: 33ms (0s by site), 6 of 4, at most 10ms; 2 at main.(*cache).get:4 sync.Mutex.Lock 3 30ms
sync.Mutex Mutex in main.twice 0*0  [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.twice:9 sync.Mutex.Lock 1 10ms
sync.Mutex Mutex in main.twice 1*0 0xc000030000 [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.twice:9 sync.Mutex.Lock 1 10ms
sync.Mutex Mutex in main.twice 2*0 0xc000030040 [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.twice:9 sync.Mutex.Lock 1 10ms
chan c.jobs 0*3  [0]: 30ms (0s by site), 3 of 3, at most 10ms; 1 at main.(*cache).get:5 chan receive 3 30ms
select select of another channel, another channel 0*3  [0]: 30ms (0s by site), 3 of 3, at most 10ms; 1 at main.loop:7 select 3 30ms
`)
}

// Goroutines that wait in a select to send wait for those that receive from that channel. Who waits for the signal that the select waits for
// too is not on the other side, and idle waits on a channel are not part of the time for which its other side is told.
func TestSelectSends(t *testing.T) {
	below := testenv.Must(source.Below([]string{"../../../testdata"}))
	for program, want := range map[string]struct{ name, other string }{
		"slow-consumer": {"events", "main.upload"}, "grpc-stream": {"changes", "main.(*feed).publish"},
	} {
		f := testenv.Must(reader.Open("../findings/testdata/causes/" + program + ".tach"))
		s := analyzetest.SamplesOf(t, stream.Options{Labels: true, Objects: true}, f)
		found := false
		for _, x := range testenv.Must(Find(s, Options{Channels: true, Source: below.Read})).Group().Locks {
			h := x.Holder
			if h != nil {
				testenv.Within(t, program+", "+x.Name, h.Seen+h.Inferred, 0, x.Waited)
			}
			if x.Name != want.name || x.Waited < time.Second {
				continue
			}
			found = true
			right := time.Duration(0)
			for _, line := range h.Lines {
				if line.Func == want.other {
					right += line.Time
				}
			}
			testenv.FailIf(t, !x.Sites[0].Sends || right < x.Waited*95/100, "%s: %v of %v wait for %s: %+v", program, right, x.Waited, want.other, h.Lines)
		}
		testenv.Same(t, program+": somebody waits for "+want.name, found, true)
		testenv.OK(t, f.Close())
	}
}

// A waitCase is goroutines 11 to 14, of one go statement, for 4 s. At each tick of 20 ms each waits anew.
type waitCase struct {
	kind, reason string
	stops        tachyon.GoroutineStops // of each goroutine in each second
	else_        int                    // at one of so many ticks they wait elsewhere; 0: never
	runs         int                    // the same, running
	long         bool                   // goroutine 14 has waits of half a second instead
	unsaid       bool                   // the file has no stops
}

func (c waitCase) record(t *testing.T) *Lock {
	r := analyzetest.Record(t)
	const tick, length = 20_000, 4_000_000
	at, other := analyzetest.Place("main.work", 5), analyzetest.Place("main.pause", 9)
	for g := uint64(11); g <= 14; g++ {
		r.Goroutine(tachyon.Goroutine{ID: g, CreatedBy: "main.main", CreatedAt: "/home/u/app/main.go:3"})
		for i := uint64(1); i*tick <= length; i++ {
			status, stack := tachyon.Moved, append(analyzetest.WaitFor(c.reason, 1), at)
			switch {
			case c.long && g == 14 && i%25 != 0:
				status = 0
			case c.else_ > 0 && i%uint64(c.else_) == 0:
				stack = append(analyzetest.WaitFor("chan receive", 0), other)
			case c.runs > 0 && i%uint64(c.runs) == 0:
				status, stack = analyzetest.Running, stack[len(stack)-1:]
			}
			r.Add(g, i*tick, status, stack...)
		}
	}
	session := tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects, Stops: !c.unsaid}
	for second := uint64(1); second <= 4 && !c.unsaid; second++ {
		s := tachyon.Stops{Until: second * 1_000_000}
		for g := uint64(11); g <= 14; g++ {
			n := c.stops
			if n.ID = g; c.long && g == 14 {
				n.N = 2
			}
			s.List = append(s.List, n)
		}
		testenv.OK(t, r.W.WriteRecords(&tachyon.Records{Stops: &s}))
	}
	r.Objects = []tachyon.Object{{Number: 1, Kind: c.kind, Addr: 0xc000010000}}
	l := testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{Objects: true}, r.Finish(session)), Options{}))
	for i := range l.Locks {
		if l.Locks[i].Object == 1 {
			return &l.Locks[i]
		}
	}
	t.Fatalf("no lock: %+v", l.Locks)
	return nil
}

// Short waits are counted where goroutines stop for one lock only. A number that may be too low says so, and so does the longest
// wait if no wait was told apart.
func TestCountedWaits(t *testing.T) {
	channel := waitCase{kind: tachyon.ObjectChannel, reason: "chan send", stops: tachyon.GoroutineStops{N: 1000}}
	with := func(change func(*waitCase)) waitCase {
		c := channel
		change(&c)
		return c
	}
	mutex := func(n uint64) waitCase {
		return waitCase{kind: tachyon.ObjectMutex, reason: "sync.Mutex.Lock", stops: tachyon.GoroutineStops{N: n}}
	}
	for name, c := range map[string]struct {
		waitCase
		waits   int
		atLeast bool
		longest string
	}{
		"one place":          {channel, 16_000, false, "<20ms"},
		"one and long waits": {with(func(c *waitCase) { c.long = true }), 12_008, false, "500ms"},
		"no stops":           {with(func(c *waitCase) { c.unsaid = true }), 800, true, "<20ms"},
		"another place":      {with(func(c *waitCase) { c.else_ = 10 }), 720, true, "<20ms"},
		"rarely another":     {with(func(c *waitCase) { c.else_ = 150 }), 15_920, false, "<20ms"},
		"perhaps more stops": {with(func(c *waitCase) { c.stops.AtLeast = true }), 16_000, true, "<20ms"},
		// They run for 10 % of the time: 40 slices of 10 ms each.
		"may be preempted":      {with(func(c *waitCase) { c.stops.N, c.runs = 1000, 10 }), 16_000, false, "<20ms"},
		"may often be":          {with(func(c *waitCase) { c.stops.N, c.runs = 100, 10 }), 1440, true, "<20ms"},
		"a mutex, for 1 ms":     {mutex(1000), 8000, true, "<20ms"},
		"a mutex, for 20 ms":    {mutex(50), 800, true, "<20ms"},
		"a mutex, for 0.125 ms": {mutex(8000), 96_152, true, "<20ms"},
		"a mutex, for 12 µs":    {mutex(80_000), 1_280_000, false, "<20ms"},
	} {
		x := c.record(t)
		longest := x.Longest.String()
		if x.Below > 0 {
			longest = "<" + x.Below.String()
		}
		testenv.Same(t, name, fmt.Sprint(x.Waits, x.AtLeast, longest), fmt.Sprint(c.waits, c.atLeast, c.longest))
		testenv.FailIf(t, x.Sites[0].Waits != x.Waits || x.Waited <= 4*time.Second, "%s: %+v", name, x)
	}
}
