package locks

import (
	"fmt"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A waitCase is goroutines 11 to 14, of one go statement, for 4 s. At each tick of 20 ms each waits anew.
type waitCase struct {
	kind   string
	reason string
	stops  tachyon.GoroutineStops // of each goroutine in each second
	else_  int                    // at one of so many ticks they wait elsewhere; 0: never
	runs   int                    // the same, running
	long   bool                   // goroutine 14 has waits of half a second instead
	unsaid bool                   // the file has no stops
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
		if x.Sites[0].Waits != x.Waits || x.Waited <= 4*time.Second {
			t.Errorf("%s: %+v", name, x)
		}
	}
}
