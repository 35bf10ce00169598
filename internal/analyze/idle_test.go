package analyze

import (
	"fmt"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// idleOf returns the time of a recording that is idle and the time that is not, in ms, of goroutines only,
// by the function in which the goroutine began.
func idleOf(t *testing.T, s *Samples) (idle, work map[string]int) {
	t.Helper()
	idle, work, _ = idleOrRest(t, s)
	return idle, work
}

// idleOrRest is idleOf. It also returns the part of the time that is not idle in which goroutines rest, in ms.
func idleOrRest(t *testing.T, s *Samples) (idle, work map[string]int, rest int) {
	t.Helper()
	f := NewIdle(s.src)
	type place struct {
		key   WaitKey
		entry string
	}
	sums := map[place]time.Duration{}
	for x := range each(t, s.src.Samples()) {
		key := f.Add(x)
		entry := ""
		for at := x.Stack; at != 0; at = s.caller(at) {
			if name := s.leaf(at).Func; !wrappers[name] {
				entry = name
			}
		}
		sums[place{key, entry}] += x.Wall
	}
	f.Finish()
	idle, work = map[string]int{}, map[string]int{}
	for p, wall := range sums {
		if f.Is(p.key) {
			idle[p.entry] += int(wall.Milliseconds())
		} else {
			work[p.entry] += int(wall.Milliseconds())
		}
		if f.Rests(p.key) {
			rest += int(wall.Milliseconds())
		}
	}
	return idle, work, rest
}

// labelled returns the samples with labels.
func (r *recording) labelled() *Samples {
	r.t.Helper()
	return r.selected(nil)
}

// selected returns those that are selected.
func (r *recording) selected(sel *stream.Selection) *Samples {
	r.t.Helper()
	return samplesOf(r.t, stream.Options{Labels: true, Objects: true, Select: sel}, r.finish(tachyon.Session{Source: "native", Markers: true}))
}

func wait(why string) tachyon.Frame { return tachyon.Frame{Func: "[" + why + "]"} }

var waitForIO = []tachyon.Frame{
	wait("IO wait"), place("internal/poll.runtime_pollWait", 1), place("internal/poll.(*FD).Read", 1),
	place("net.(*netFD).Read", 1), place("net.(*conn).Read", 1),
}

// Each known place is idle. In a goroutine with labels, and in a request, it is if the row says so. The same
// function is not idle where it waits for something else.
func TestIdlePlaces(t *testing.T) {
	for i := range idleTable {
		p := &idleTable[i]
		t.Run(p.in+" "+p.call, func(t *testing.T) {
			stack := []tachyon.Frame{wait("select")}
			switch p.call {
			case "":
			case "*":
				stack = append(waitForIO[:len(waitForIO):len(waitForIO)], place("example.org/any.Function", 3))
			default:
				stack = append(waitForIO[:len(waitForIO):len(waitForIO)], place(p.call, 3))
			}
			stack = append(stack, place(p.in, 7))
			lock := append([]tachyon.Frame{wait("sync.Mutex.Lock"), place("sync.(*Mutex).Lock", 1)}, stack[1:]...)
			send := append([]tachyon.Frame{wait("chan send")}, stack[1:]...)
			other := append(append(waitForIO[:len(waitForIO):len(waitForIO)], place("example.org/lib.other", 3)), stack[len(stack)-1])
			under := func(entry string, stack []tachyon.Frame) []tachyon.Frame {
				return append(stack[:len(stack):len(stack)], place(entry, 1))
			}
			r := record(t)
			for g, s := range [][]tachyon.Frame{
				under("main.plain", stack), under("main.labels", stack),
				under("main.request", append(stack[:len(stack):len(stack)], place("main.(*h).ServeHTTP", 9))),
				under("main.other", other), under("main.runs", stack), under("main.lock", lock), under("main.send", send),
			} {
				id := uint64(10 + g)
				status := tachyon.Status(0)
				if g == 4 {
					status = running
				}
				r.every(1000, 1000, 100_000, id, status, s...)
				info := tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "main.go:1", First: start, Last: start + 100_000}
				if g == 1 {
					info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{"request": "1"}}}
				}
				r.goroutine(info)
			}
			idle, work := idleOf(t, r.labelled())
			always := 0
			if p.always {
				always = 100
			}
			otherIdle := 0
			if p.call == "*" {
				otherIdle = 100
			}
			for entry, want := range map[string]int{"main.plain": 100, "main.labels": always, "main.request": always, "main.other": otherIdle, "main.runs": 0, "main.lock": 0, "main.send": 0} {
				if idle[entry] != want || work[entry] != 100-want {
					t.Errorf("%s: %d ms idle, %d ms not, want %d ms idle", entry, idle[entry], work[entry], want)
				}
			}
		})
	}
}

// The reasons that only the runtime's goroutines have are idle, and so are its goroutines' other waits. Its work
// on a CPU is not.
func TestIdleRuntime(t *testing.T) {
	r := record(t)
	add := func(id uint64, interpreter uint32, status tachyon.Status, frames ...tachyon.Frame) {
		t.Helper()
		for at := uint64(1000); at <= 100_000; at += 1000 {
			if err := r.w.WriteFrames(&tachyon.Sample{Thread: id, Interpreter: interpreter, Time: start + at, Status: status}, frames); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := uint64(10)
	for why := range idleReasons {
		add(id, tachyon.User, 0, wait(why), place("main.own", 1))
		id++
	}
	add(id, tachyon.Runtime, 0, wait("sleep"), place("runtime.bgscavenge", 1))
	add(id+1, tachyon.Runtime, running, place("runtime.gcBgMarkWorker", 1))
	add(id+2, tachyon.User, 0, wait("GC assist wait"), place("main.allocates", 1))
	idle, work := idleOf(t, samplesOf(t, stream.Options{}, r.finish(tachyon.Session{Source: "native", Markers: true, System: true})))
	got := fmt.Sprint(idle, work)
	if want := fmt.Sprint(map[string]int{"main.own": 100 * len(idleReasons), "runtime.bgscavenge": 100},
		map[string]int{"runtime.gcBgMarkWorker": 100, "main.allocates": 100}); got != want {
		t.Errorf("idle and not:\n%s\nwant:\n%s", got, want)
	}
}

// A homeCase is a group of goroutines that do the same again and again.
type homeCase struct {
	name    string
	members int
	rest    []tachyon.Frame // in which they wait
	work    []tachyon.Frame // what they do between two waits; nil: they do not come back
	share   int             // of the time at rest, in percent
	labels  bool
	short   bool // they live for a tenth of the session only, one after the other
	main    bool
	objects bool // they all wait for one object
	bit     tachyon.Status
	longer  bool // a session of ten seconds, not of two
	idle    bool
	rests   bool
}

func homeCases() []homeCase {
	loop := place("main.loop", 5)
	work := []tachyon.Frame{wait("sleep"), place("time.Sleep", 1), place("main.job", 9), place("main.loop", 6)}
	receive := []tachyon.Frame{wait("chan receive"), loop}
	literal := place("main.start.func1", 3)
	deep := append(receive[:2:2], literal)
	deepWork := append(work[:4:4], literal)
	call := []tachyon.Frame{wait("select"), place("example.org/rpc.(*Client).Call", 40), place("main.client", 7)}
	answer := []tachyon.Frame{wait("chan receive"), call[1], call[2]}
	return []homeCase{
		{name: "workers", members: 8, rest: receive, work: work, share: 95, idle: true},
		{name: "workers in a WaitGroup", members: 8, rest: append(receive[:2:2], place("sync.(*WaitGroup).Go.func1", 1)), work: append(work[:4:4], place("sync.(*WaitGroup).Go.func1", 1)), share: 95, idle: true},
		{name: "busy workers", members: 8, rest: receive, work: work, share: 85},
		{name: "labels at rest", members: 8, rest: receive, work: work, share: 95, labels: true},
		{name: "leaked", members: 50, rest: receive, share: 100},
		{name: "blocked in a send", members: 8, rest: []tachyon.Frame{wait("chan send"), loop}, work: work, share: 95},
		{name: "waiting for a lock", members: 8, rest: []tachyon.Frame{wait("sync.Mutex.Lock"), place("sync.(*Mutex).Lock", 1), loop}, work: work, share: 95},
		{name: "ticker", members: 1, rest: []tachyon.Frame{wait("sleep"), place("time.Sleep", 1), loop}, work: work, share: 95, idle: true},
		{name: "own protocol", members: 4, rest: append(waitForIO[:5:5], place("bufio.(*Reader).ReadString", 1), loop), work: work, share: 95, idle: true},
		{name: "blocked in a write", members: 4, rest: []tachyon.Frame{wait("IO wait"), place("internal/poll.(*FD).Write", 1), place("net.(*conn).Write", 1), loop}, work: work, share: 95},
		{name: "client of another library", members: 4, rest: call, work: work, share: 95},
		{name: "client in a literal", members: 4, rest: append(call[:2:2], place("main.main.func2", 3)), work: []tachyon.Frame{place("main.main.func2", 3)}, share: 95},
		{name: "loop in the background", members: 2, rest: []tachyon.Frame{wait("select"), loop}, share: 100, idle: true},
		{name: "loop in the background, called by a literal", members: 2, rest: []tachyon.Frame{wait("select"), loop, literal}, share: 100, idle: true},
		{name: "many in a select", members: 8, rest: []tachyon.Frame{wait("select"), loop}, share: 100},
		{name: "few that wait for one thing", members: 2, rest: receive, share: 100, rests: true},
		{name: "few that wait for one thing, called by others", members: 4, rest: answer, share: 100, rests: true},
		{name: "few that wait for one thing, with labels", members: 2, rest: receive, share: 100, labels: true},
		{name: "few that wait for one thing for long", members: 2, rest: receive, share: 100, longer: true, idle: true, rests: true},
		{name: "few that wait for one thing for long, with labels", members: 2, rest: receive, share: 100, longer: true, labels: true},
		{name: "more that wait for one thing for long", members: 5, rest: receive, share: 100, longer: true},
		{name: "main waits for others for long", members: 1, rest: []tachyon.Frame{wait("sync.WaitGroup.Wait"), place("sync.(*WaitGroup).Wait", 1), place("main.main", 20)}, share: 100, main: true, longer: true, idle: true, rests: true},
		{name: "few that came back", members: 2, rest: answer, share: 100, bit: tachyon.Moved},
		{name: "more that wait for one thing", members: 5, rest: receive, share: 100},
		{name: "few that wait for one thing for a while", members: 4, rest: receive, share: 100, short: true},
		{name: "few that wait for a lock", members: 2, rest: []tachyon.Frame{wait("sync.Mutex.Lock"), place("sync.(*Mutex).Lock", 1), loop}, share: 100},
		{name: "few in a handler", members: 2, rest: []tachyon.Frame{wait("chan receive"), place("main.(*h).ServeHTTP", 1)}, share: 100},
		{name: "waits for others", members: 1, rest: []tachyon.Frame{wait("sync.WaitGroup.Wait"), place("sync.(*WaitGroup).Wait", 1), loop}, share: 100, rests: true},
		{name: "main waits for others", members: 1, rest: []tachyon.Frame{wait("sync.WaitGroup.Wait"), place("sync.(*WaitGroup).Wait", 1), place("main.main", 20)}, share: 100, main: true, rests: true},
		{name: "a goroutine for each request, in a select", members: 4, rest: []tachyon.Frame{wait("select"), loop}, share: 100, short: true},
		{name: "HTTP client", members: 4, rest: []tachyon.Frame{wait("select"), place("net/http.(*persistConn).roundTrip", 1), place("net/http.Get", 1), loop}, work: work, share: 95},
		{name: "HTTP handler", members: 4, rest: []tachyon.Frame{wait("select"), place("main.(*h).ServeHTTP", 1)}, work: []tachyon.Frame{place("main.job", 9), place("main.(*h).ServeHTTP", 2)}, share: 95},
		{name: "test", members: 1, rest: []tachyon.Frame{wait("sleep"), place("time.Sleep", 1), place("testing.tRunner", 1)}, work: []tachyon.Frame{place("main.job", 9), place("testing.tRunner", 2)}, share: 95},
		{name: "a goroutine for each request", members: 40, rest: receive, work: work, share: 95, short: true},
		{name: "workers called by a literal", members: 8, rest: deep, work: deepWork, share: 95, objects: true, idle: true},
		{name: "replies in a function that a literal calls", members: 8, rest: deep, work: deepWork, share: 95},
		{name: "select without cases", members: 2, rest: []tachyon.Frame{wait(idleForever), loop}, share: 100, idle: true},
		{name: "select without cases, with labels", members: 2, rest: []tachyon.Frame{wait(idleForever), loop}, share: 100, labels: true},
		{name: "select without cases in a handler", members: 2, rest: []tachyon.Frame{wait(idleForever), place("main.(*h).ServeHTTP", 1)}, share: 100},
		{name: "main waits for the end", members: 1, rest: []tachyon.Frame{wait("chan receive"), place("main.main", 20)}, share: 99, main: true, idle: true},
		{name: "main waits for an answer", members: 1, rest: []tachyon.Frame{wait("chan receive"), place("main.ask", 20), place("main.main", 20)}, share: 99, main: true, rests: true},
	}
}

func TestIdleHome(t *testing.T) {
	for _, c := range homeCases() {
		t.Run(c.name, func(t *testing.T) {
			r := record(t)
			c.add(r)
			idle, work, rest := idleOrRest(t, r.labelled())
			got, all := 0, 0
			for _, ms := range idle {
				got += ms
			}
			for _, ms := range work {
				all += ms
			}
			all += got
			if c.idle && got < all*c.share/100-20*c.members || !c.idle && got != 0 {
				t.Errorf("%d of %d ms are idle: %v, not %v", got, all, idle, work)
			}
			if rest > 0 != c.rests || c.rests && rest != all {
				t.Errorf("in %d of %d ms goroutines rest", rest, all)
			}
		})
	}
}

// If only the samples of a wait are selected, it looks as if goroutines did nothing else. That must not make it a home, nor a
// place to rest. The status bit Moved shows that goroutines come back, if what they do meanwhile is too short for a sample.
func TestIdleOfPart(t *testing.T) {
	receive := []tachyon.Frame{wait("chan receive"), place("main.loop", 5)}
	workers := homeCases()[0]
	workers.bit = tachyon.Moved
	for _, c := range []struct {
		homeCase
		state       string // the only one that is selected
		idle, rests bool
	}{
		{workers, "", true, false},
		{workers, "chan receive", false, false},
		{homeCase{members: 2, rest: receive, share: 100}, "", false, true},
		{homeCase{members: 2, rest: receive, share: 100}, "chan receive", false, false},
		{homeCase{members: 4, rest: receive, share: 100}, "", false, true},
		{homeCase{members: 4, rest: receive, share: 100, bit: tachyon.Moved}, "", true, false},
	} {
		r := record(t)
		c.add(r)
		sel := &stream.Selection{Goroutines: []uint64{100, 101, 102, 103}}
		if c.state != "" {
			sel.States = []string{c.state}
		}
		idle, work, rest := idleOrRest(t, r.selected(sel))
		if (idle["main.loop"] > 0) != c.idle || (rest > 0) != c.rests {
			t.Errorf("%d with status %#x, selected state %q: %v ms idle, %v not, %d at rest", c.members, c.bit, c.state, idle, work, rest)
		}
	}
}

// A goroutine that rests in a part of a session may wait for an answer there.
func TestRestOfWindow(t *testing.T) {
	for window, want := range map[bool]time.Duration{false: 20 * time.Second, true: 0} {
		c := homeCase{members: 2, rest: []tachyon.Frame{wait("chan receive"), place("main.loop", 5)}, share: 100, longer: true}
		r := record(t)
		c.add(r)
		p, err := NewProfile(r.labelled().src, ReportOptions{Window: window})
		if err != nil || p.Idle != want {
			t.Errorf("window %v: %v idle, %v", window, p.Idle, err)
		}
	}
}

// add records the goroutines.
func (c *homeCase) add(r *recording) {
	session := uint64(2_000_000)
	if c.longer {
		session = 10_000_000
	}
	for g := range c.members {
		id := uint64(100 + g)
		rest := append([]tachyon.Frame{}, c.rest...)
		if c.objects {
			rest[0].Line = 3
		}
		status := tachyon.Status(0)
		if c.main {
			status = tachyon.MainThread
		}
		info := tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "main.go:12", First: start, Last: start + session}
		if c.main {
			info.CreatedBy, info.CreatedAt = "", ""
		}
		if c.labels {
			info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{"request": "1"}}}
		}
		from, to := uint64(0), session
		if c.short {
			from = uint64(g) * session / uint64(c.members)
			to = from + session/10
		}
		for at := from + 1000; at <= to; at += 1000 {
			if tick := int(at/1000+uint64(7*g)) % 100; tick < c.share || c.work == nil {
				r.add(id, at, status|c.bit, rest...)
			} else {
				r.add(id, at, status, c.work...)
			}
		}
		r.goroutine(info)
	}
}
