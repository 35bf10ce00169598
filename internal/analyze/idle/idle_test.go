package idle

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// idleOf returns the time of a recording, or of a window of one, that is idle and the time that is not, in ms, of goroutines only, by the
// function in which the goroutine began, and the part of it in which goroutines rest.
func idleOf(t *testing.T, s *analyze.Samples, window bool) (idle, work map[string]int, rest int) {
	t.Helper()
	f := New(s.Source, nil)
	f.Window = window
	type place struct {
		key   Key
		entry string
	}
	sums := map[place]time.Duration{}
	for x := range testenv.All(t, s.Source.Samples()) {
		key, entry := f.Add(x), ""
		for at := x.Stack; at != 0; at = s.Caller(at) {
			if name := s.Leaf(at).Func; !Wrappers[name] {
				entry = name
			}
		}
		sums[place{key, entry}] += x.Wall
	}
	f.Finish()
	idle, work = map[string]int{}, map[string]int{}
	for p, wall := range sums {
		of := work
		if f.Is(p.key) {
			of = idle
		}
		of[p.entry] += int(wall.Milliseconds())
		if f.Rests(p.key) {
			rest += int(wall.Milliseconds())
		}
	}
	return idle, work, rest
}

// sum adds up times.
func sum(times map[string]int) (ms int) {
	for _, x := range times {
		ms += x
	}
	return ms
}

// A homeCase is a group of goroutines that do the same again and again.
type homeCase struct {
	name        string
	members     int
	rest        []tachyon.Frame // in which they wait
	work        []tachyon.Frame // what they do between two waits; nil: they do not come back
	share       int             // of the time at rest, in percent
	labels      bool
	short       bool // they live for a tenth of the session only, one after the other
	main        bool
	objects     bool // they all wait for one object
	bit         tachyon.Status
	longer      bool            // a session of ten seconds, not of two
	late        bool            // they are born after two seconds of it
	grows       bool            // half of them are
	also        []tachyon.Frame // in which they wait in turns with rest; nil: nowhere
	idle, rests bool
}

func homeCases() []homeCase {
	loop := analyzetest.Place("main.loop", 5)
	work := []tachyon.Frame{analyzetest.Wait("sleep"), analyzetest.Place("time.Sleep", 1), analyzetest.Place("main.job", 9), analyzetest.Place("main.loop", 6)}
	receive := []tachyon.Frame{analyzetest.Wait("chan receive"), loop}
	literal := analyzetest.Place("main.start.func1", 3)
	deep := append(receive[:2:2], literal)
	deepWork := append(work[:4:4], literal)
	call := []tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("example.org/rpc.(*Client).Call", 40), analyzetest.Place("main.client", 7)}
	answer := []tachyon.Frame{analyzetest.Wait("chan receive"), call[1], call[2]}
	return []homeCase{
		{name: "workers", members: 8, rest: receive, work: work, share: 95, idle: true},
		{name: "workers in a WaitGroup", members: 8, rest: append(receive[:2:2], analyzetest.Place("sync.(*WaitGroup).Go.func1", 1)), work: append(work[:4:4], analyzetest.Place("sync.(*WaitGroup).Go.func1", 1)), share: 95, idle: true},
		{name: "busy workers", members: 8, rest: receive, work: work, share: 85},
		{name: "labels at rest", members: 8, rest: receive, work: work, share: 95, labels: true},
		{name: "leaked", members: 50, rest: receive, share: 100, rests: true},
		{name: "leaked in the session", members: 50, rest: receive, share: 100, longer: true, late: true},
		{name: "leaked in the session, in a select", members: 50, rest: []tachyon.Frame{analyzetest.Wait("select"), loop, literal}, share: 100, longer: true, late: true},
		{name: "leaked before and in the session", members: 50, rest: receive, share: 100, longer: true, grows: true},
		{name: "tickers of a cache", members: 22, rest: []tachyon.Frame{analyzetest.Wait("select"), loop, literal}, share: 100, longer: true, idle: true, rests: true},
		{name: "tickers of a cache, deep", members: 22, rest: []tachyon.Frame{analyzetest.Wait("select"), loop, analyzetest.Place("main.start", 2), literal}, share: 100, longer: true, idle: true, rests: true},
		{name: "tickers of a cache, with labels", members: 22, rest: []tachyon.Frame{analyzetest.Wait("select"), loop, literal}, share: 100, longer: true, labels: true},
		{name: "clients that call again and again, deep", members: 22, rest: call, share: 100, bit: tachyon.Moved, longer: true},
		{name: "clients that call again and again, called by a literal", members: 22, rest: append(call[:2:2], literal), share: 100, bit: tachyon.Moved, longer: true},
		{name: "many that wait for an answer for long", members: 22, rest: answer, share: 100, longer: true},
		{name: "many handlers in a select for long", members: 22, rest: []tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("main.(*h).ServeHTTP", 1)}, share: 100, longer: true},
		{name: "two selects in turns", members: 8, rest: []tachyon.Frame{analyzetest.Wait("select"), loop}, also: []tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("main.loop", 9)}, share: 50, work: work, idle: true},
		{name: "two selects in turns, of different functions", members: 8, rest: []tachyon.Frame{analyzetest.Wait("select"), loop}, also: call, share: 50},
		{name: "a receive and a select in turns", members: 8, rest: receive, also: []tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("main.loop", 9)}, share: 50},
		{name: "a receive and a send in turns", members: 8, rest: receive, also: []tachyon.Frame{analyzetest.Wait("chan send"), analyzetest.Place("main.loop", 9)}, share: 50},
		{name: "workers of which a third has work", members: 9, rest: receive, work: work, share: 67, objects: true, idle: true},
		{name: "workers of which most have work", members: 9, rest: receive, work: work, share: 40, objects: true},
		{name: "answers of which each has its channel", members: 9, rest: receive, work: work, share: 67},
		{name: "waiting for a slow consumer", members: 2, rest: []tachyon.Frame{analyzetest.Wait("chan send"), loop}, share: 100, longer: true},
		{name: "blocked in a send", members: 8, rest: []tachyon.Frame{analyzetest.Wait("chan send"), loop}, work: work, share: 95},
		{name: "waiting for a lock", members: 8, rest: []tachyon.Frame{analyzetest.Wait("sync.Mutex.Lock"), analyzetest.Place("sync.(*Mutex).Lock", 1), loop}, work: work, share: 95},
		{name: "ticker", members: 1, rest: []tachyon.Frame{analyzetest.Wait("sleep"), analyzetest.Place("time.Sleep", 1), loop}, work: work, share: 95, idle: true},
		{name: "own protocol", members: 4, rest: append(waitForIO[:5:5], analyzetest.Place("bufio.(*Reader).ReadString", 1), loop), work: work, share: 95, idle: true},
		{name: "copies what another program prints", members: 1, rest: append(waitForIO[:3:3], analyzetest.Place("os.(*File).Read", 1), analyzetest.Place("io.copyBuffer", 1), analyzetest.Place("os.genericWriteTo", 1), analyzetest.Place("io.Copy", 1), literal), share: 100, longer: true, idle: true, rests: true},
		{name: "blocked in a write", members: 4, rest: []tachyon.Frame{analyzetest.Wait("IO wait"), analyzetest.Place("internal/poll.(*FD).Write", 1), analyzetest.Place("net.(*conn).Write", 1), loop}, work: work, share: 95},
		{name: "client of another library", members: 4, rest: call, work: work, share: 95},
		{name: "client in a literal", members: 4, rest: append(call[:2:2], analyzetest.Place("main.main.func2", 3)), work: []tachyon.Frame{analyzetest.Place("main.main.func2", 3)}, share: 95},
		{name: "loop in the background", members: 2, rest: []tachyon.Frame{analyzetest.Wait("select"), loop}, share: 100, idle: true},
		{name: "loop in the background, called by a literal", members: 2, rest: []tachyon.Frame{analyzetest.Wait("select"), loop, literal}, share: 100, idle: true},
		{name: "many in a select", members: 8, rest: []tachyon.Frame{analyzetest.Wait("select"), loop}, share: 100, rests: true},
		{name: "one sleep", members: 1, rest: []tachyon.Frame{analyzetest.Wait("sleep"), analyzetest.Place("time.Sleep", 1), analyzetest.Place("main.run", 4), analyzetest.Place("main.main", 20)}, share: 100, main: true, longer: true, idle: true, rests: true},
		{name: "sleeps between tries", members: 2, rest: []tachyon.Frame{analyzetest.Wait("sleep"), analyzetest.Place("time.Sleep", 1), analyzetest.Place("main.try", 4), loop}, share: 100, bit: tachyon.Moved, longer: true},
		{name: "few that wait for one thing", members: 2, rest: receive, share: 100, rests: true},
		{name: "few that wait for one thing, called by others", members: 4, rest: answer, share: 100, rests: true},
		{name: "few that wait for one thing, with labels", members: 2, rest: receive, share: 100, labels: true},
		{name: "few that wait for one thing for long", members: 2, rest: receive, share: 100, longer: true, idle: true, rests: true},
		{name: "few that wait for one thing for long, with labels", members: 2, rest: receive, share: 100, longer: true, labels: true},
		{name: "more that wait for one thing for long", members: 5, rest: receive, share: 100, longer: true, idle: true, rests: true},
		{name: "main waits for others for long", members: 1, rest: []tachyon.Frame{analyzetest.Wait("sync.WaitGroup.Wait"), analyzetest.Place("sync.(*WaitGroup).Wait", 1), analyzetest.Place("main.main", 20)}, share: 100, main: true, longer: true, idle: true, rests: true},
		{name: "main waits for another program", members: 1, rest: []tachyon.Frame{analyzetest.Wait("syscall"), analyzetest.Place("os.(*Process).pidfdWait", 1), analyzetest.Place("os.(*Process).Wait", 1), analyzetest.Place("main.main", 20)}, share: 100, main: true, longer: true, idle: true, rests: true},
		{name: "few that came back", members: 2, rest: answer, share: 100, bit: tachyon.Moved},
		{name: "more that wait for one thing", members: 5, rest: receive, share: 100, rests: true},
		{name: "few that wait for one thing for a while", members: 4, rest: receive, share: 100, short: true},
		{name: "few that wait for a lock", members: 2, rest: []tachyon.Frame{analyzetest.Wait("sync.Mutex.Lock"), analyzetest.Place("sync.(*Mutex).Lock", 1), loop}, share: 100},
		{name: "few in a handler", members: 2, rest: []tachyon.Frame{analyzetest.Wait("chan receive"), analyzetest.Place("main.(*h).ServeHTTP", 1)}, share: 100},
		{name: "waits for others", members: 1, rest: []tachyon.Frame{analyzetest.Wait("sync.WaitGroup.Wait"), analyzetest.Place("sync.(*WaitGroup).Wait", 1), loop}, share: 100, rests: true},
		{name: "main waits for others", members: 1, rest: []tachyon.Frame{analyzetest.Wait("sync.WaitGroup.Wait"), analyzetest.Place("sync.(*WaitGroup).Wait", 1), analyzetest.Place("main.main", 20)}, share: 100, main: true, rests: true},
		{name: "a goroutine for each request, in a select", members: 4, rest: []tachyon.Frame{analyzetest.Wait("select"), loop}, share: 100, short: true},
		{name: "HTTP client", members: 4, rest: []tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("net/http.(*persistConn).roundTrip", 1), analyzetest.Place("net/http.Get", 1), loop}, work: work, share: 95},
		{name: "HTTP handler", members: 4, rest: []tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("main.(*h).ServeHTTP", 1)}, work: []tachyon.Frame{analyzetest.Place("main.job", 9), analyzetest.Place("main.(*h).ServeHTTP", 2)}, share: 95},
		{name: "test", members: 1, rest: []tachyon.Frame{analyzetest.Wait("sleep"), analyzetest.Place("time.Sleep", 1), analyzetest.Place("testing.tRunner", 1)}, work: []tachyon.Frame{analyzetest.Place("main.job", 9), analyzetest.Place("testing.tRunner", 2)}, share: 95},
		{name: "a goroutine for each request", members: 40, rest: receive, work: work, share: 95, short: true},
		{name: "workers called by a literal", members: 8, rest: deep, work: deepWork, share: 95, objects: true, idle: true},
		{name: "replies in a function that a literal calls", members: 8, rest: deep, work: deepWork, share: 95},
		{name: "select without cases", members: 2, rest: []tachyon.Frame{analyzetest.Wait(idleForever), loop}, share: 100, idle: true},
		{name: "select without cases, with labels", members: 2, rest: []tachyon.Frame{analyzetest.Wait(idleForever), loop}, share: 100, labels: true},
		{name: "select without cases in a handler", members: 2, rest: []tachyon.Frame{analyzetest.Wait(idleForever), analyzetest.Place("main.(*h).ServeHTTP", 1)}, share: 100},
		{name: "main waits for the end", members: 1, rest: []tachyon.Frame{analyzetest.Wait("chan receive"), analyzetest.Place("main.main", 20)}, share: 99, main: true, idle: true},
		{name: "main waits for an answer", members: 1, rest: []tachyon.Frame{analyzetest.Wait("chan receive"), analyzetest.Place("main.ask", 20), analyzetest.Place("main.main", 20)}, share: 99, main: true, rests: true},
	}
}

func TestIdleHome(t *testing.T) {
	testenv.Again(t)
	for _, c := range homeCases() {
		t.Run(c.name, func(t *testing.T) {
			r := analyzetest.Record(t)
			c.add(r)
			idle, work, rest := idleOf(t, r.Labelled(), false)
			got := sum(idle)
			all := got + sum(work)
			testenv.FailIf(t, c.idle && got < all*c.share/100-20*c.members || !c.idle && got != 0, "%d of %d ms are idle: %v, not %v", got, all, idle, work)
			testenv.FailIf(t, rest > 0 != c.rests || c.rests && rest != all, "in %d of %d ms goroutines rest", rest, all)
		})
	}
}

// One helper may start all goroutines of a program, with a literal of its own. A group is those that run one function.
func TestIdleOfHelper(t *testing.T) {
	helper := analyzetest.Place("example.org/lib.(*Server).Go.func1", 3)
	busy := []tachyon.Frame{analyzetest.Wait("chan receive"), analyzetest.Place("example.org/rpc.Call", 2), analyzetest.Place("main.busy", 7), helper}
	for _, c := range []struct {
		name string
		rest []tachyon.Frame
		want bool
	}{
		{"waits for answers", []tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("main.watch", 5), helper}, false},
		{"waits for work that others share", []tachyon.Frame{{Func: "[chan receive]", Line: 3}, analyzetest.Place("main.watch", 5), helper}, true},
		{"calls somebody", []tachyon.Frame{analyzetest.Wait("IO wait"), analyzetest.Place("internal/poll.(*FD).Read", 1), analyzetest.Place("main.ask", 3), analyzetest.Place("main.watch", 5), helper}, false},
	} {
		r := analyzetest.Record(t)
		for g := range uint64(40) {
			for at := uint64(1000); at <= 10_000_000; at += 10_000 {
				if g < 2 && at%300_000 == 1000 {
					r.Add(100+g, at, analyzetest.Running, analyzetest.Place("main.work", 8), c.rest[1], helper)
				} else if g < 2 {
					r.Add(100+g, at, 0, c.rest...)
				} else {
					r.Add(100+g, at, tachyon.Moved, busy...)
				}
			}
			r.Goroutine(tachyon.Goroutine{ID: 100 + g, CreatedBy: "example.org/lib.(*Server).Go", CreatedAt: "lib.go:12", First: analyzetest.Start, Last: analyzetest.Start + 10_000_000})
		}
		idle, _, _ := idleOf(t, r.Labelled(), false)
		testenv.FailIf(t, c.want && sum(idle) < 19_000 || !c.want && sum(idle) != 0, "%s: %d ms are idle", c.name, sum(idle))
	}
}

// If only the samples of a wait are selected, it looks as if goroutines did nothing else. That must not make it a home, nor a
// place to rest. The status bit Moved shows that goroutines come back, if what they do meanwhile is too short for a sample.
func TestIdleOfPart(t *testing.T) {
	receive := []tachyon.Frame{analyzetest.Wait("chan receive"), analyzetest.Place("main.loop", 5)}
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
		r := analyzetest.Record(t)
		c.add(r)
		sel := &stream.Selection{Goroutines: []uint64{100, 101, 102, 103}}
		if c.state != "" {
			sel.States = []string{c.state}
		}
		idle, work, rest := idleOf(t, r.Selected(sel), false)
		what := fmt.Sprintf("%d with status %#x, selected state %q, %v ms idle, %v not, %d at rest: idle, rests", c.members, c.bit, c.state, idle, work, rest)
		testenv.Same(t, what, [2]bool{idle["main.loop"] > 0, rest > 0}, [2]bool{c.idle, c.rests})
	}
}

// add records the goroutines.
func (c *homeCase) add(r *analyzetest.Recording) {
	session, step := uint64(2_000_000), uint64(1000)
	if c.longer {
		session, step = 10_000_000, 3000 // the last sample is at the end
	}
	if c.late {
		r.Add(1, 1000, analyzetest.Running, analyzetest.Place("main.main", 5))
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
		info := tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "main.go:12", First: analyzetest.Start, Last: analyzetest.Start + session}
		if c.main {
			info.CreatedBy, info.CreatedAt = "", ""
		}
		if c.labels {
			info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{"request": "1"}}}
		}
		from, to := uint64(0), session
		if c.late || c.grows && g%2 == 1 {
			from = 2_000_000 + uint64(g)*100_000
		}
		if c.short {
			from = uint64(g) * session / uint64(c.members)
			to = from + session/10
		}
		for at := from + 1000; at <= to; at += step {
			switch tick := int(at/1000+uint64(7*g)) % 100; {
			case tick < c.share || c.work == nil && c.also == nil:
				r.Add(id, at, status|c.bit, rest...)
			case c.also != nil && (tick < 98 || c.work == nil):
				r.Add(id, at, status, c.also...)
			default:
				r.Add(id, at, status, c.work...)
			}
		}
		r.Goroutine(info)
	}
}

// A group may have a few members in each process and be at rest, or many that were there when the session began. Many that come one after
// the other do not rest.
func TestRestOfProcesses(t *testing.T) {
	for _, c := range []struct {
		name    string
		one     bool      // all files are of one process
		same    bool      // all files have the same goroutines
		members [6]uint64 // by file
		rests   bool
	}{
		{"two in each process", false, false, [6]uint64{2, 2, 2, 2, 2, 2}, true},
		{"many in one of six processes", false, false, [6]uint64{12}, true},
		{"two others in each file of one process", true, false, [6]uint64{2, 2, 2, 2, 2, 2}, false},
		{"the same two in each file of one process", true, true, [6]uint64{2, 2, 2, 2, 2, 2}, true},
	} {
		var files []*reader.Reader
		for n, members := range c.members {
			r := analyzetest.Record(t)
			from := uint64(n) * 6_000_000
			r.Add(1, from+1000, analyzetest.Running, analyzetest.Place("main.main", 5))
			r.Add(1, from+6_000_000, analyzetest.Running, analyzetest.Place("main.main", 5))
			for g := range members {
				id := g
				if !c.same {
					id += 10 * uint64(n+1)
				}
				r.Every(1000, from+1000, from+6_000_000, 100+id, 0, analyzetest.Wait("chan receive"), analyzetest.Place("main.watch", 5))
				r.Goroutine(tachyon.Goroutine{ID: 100 + id, CreatedBy: "main.main", CreatedAt: "main.go:12", FirstWeight: 1000})
			}
			begin := time.UnixMicro(analyzetest.Start)
			s := tachyon.Session{Host: "web-1", PID: 7, Source: "native", Markers: true, Start: begin, SessionStart: begin, Duration: 6 * time.Second}
			if !c.one {
				s.PID += n
			}
			files = append(files, r.Finish(s))
		}
		_, _, rest := idleOf(t, analyzetest.SamplesOf(t, stream.Options{Labels: true, Creators: true}, files...), false)
		testenv.Same(t, c.name+": goroutines rest", rest > 0, c.rests)
	}
}

// A goroutine that rests in a part of a session may wait for an answer there.
func TestRestOfWindow(t *testing.T) {
	for window, want := range map[bool]int{false: 20_000, true: 0} {
		c := homeCase{members: 2, rest: []tachyon.Frame{analyzetest.Wait("chan receive"), analyzetest.Place("main.loop", 5)}, share: 100, longer: true}
		r := analyzetest.Record(t)
		c.add(r)
		idle, _, _ := idleOf(t, r.Labelled(), window)
		testenv.Same(t, fmt.Sprint("window ", window), sum(idle), want)
	}
}

// A loop that waits in a select to send is not idle: whoever receives is slow. One in the background that waits for the next tick of its own
// ticker is, also with labels, which it has from whoever began it. Without the source text they are as any other select.
func TestSelectsOfText(t *testing.T) {
	text := testenv.Must(os.ReadFile("testdata/selects.go"))
	read := func(string) *source.File { return &source.File{Text: text} }
	for _, c := range []struct {
		function string
		read     func(string) *source.File
		labels   bool
		idle     bool
	}{
		{"main.produce", read, false, false}, {"main.watch", read, false, true}, {"main.produce", nil, false, true},
		{"main.check", read, true, true}, {"main.watch", read, true, false}, {"main.check", nil, true, false}, {"main.main", read, true, false},
	} {
		before, after, _ := bytes.Cut(text, []byte("func "+strings.TrimPrefix(c.function, "main.")+"()"))
		within, _, _ := bytes.Cut(after, []byte("select {"))
		at := tachyon.Frame{File: "/home/u/app/main.go", Func: c.function, Line: int32(1 + bytes.Count(before, []byte("\n")) + bytes.Count(within, []byte("\n")))}
		r := analyzetest.Record(t)
		for g := uint64(1); g <= 2; g++ {
			x := tachyon.Goroutine{ID: g, CreatedBy: "main.main", First: analyzetest.Start, Last: analyzetest.Start + analyzetest.OneSecond}
			if c.labels {
				x.Labels = []tachyon.LabelSpan{{Labels: map[string]string{"request": "1"}}}
			}
			r.Goroutine(x)
			for n := uint64(1); n < 1000; n++ {
				r.Add(g, n*1000, tachyon.Moved, analyzetest.Wait("select"), at)
			}
		}
		src := r.Labelled().Source
		f := testenv.Must(Read(src, c.read))
		again, idle := f.Again(), time.Duration(0)
		for s := range testenv.All(t, src.Samples()) {
			if f.Is(again.Add(s)) {
				idle += s.Wall
			}
		}
		testenv.FailIf(t, c.idle != (idle > time.Second) || !c.idle && idle != 0, "%s, line %d, with text %v, with labels %v: %v idle", c.function, at.Line, c.read != nil, c.labels, idle)
	}
}

// A loop that waits until somebody reads what it writes is not idle, and one that waits for what it reads is.
func TestWrites(t *testing.T) {
	for wait, idle := range map[string]bool{"waitWrite": false, "waitRead": true} {
		r := analyzetest.Record(t)
		r.Goroutine(tachyon.Goroutine{ID: 1, CreatedBy: "main.main", First: analyzetest.Start, Last: analyzetest.Start + analyzetest.OneSecond})
		for n := uint64(1); n < 1000; n++ {
			r.Add(1, n*1000, tachyon.Moved, analyzetest.Wait("IO wait"), tachyon.Frame{File: "/usr/lib/go/src/internal/poll/fd_poll_runtime.go", Func: "internal/poll.(*pollDesc)." + wait, Line: 2}, analyzetest.Place("main.pass", 3))
		}
		f := testenv.Must(Read(r.Labelled().Source, nil))
		testenv.Same(t, wait+" is idle", len(f.waits) > 0 && f.Is(firstWait), idle)
	}
}

// A handler that has taken over its client's connection is idle while it reads from it. One that reads the body of a request is not, nor one that
// reads another server's answer or writes.
func TestTakenOver(t *testing.T) {
	for _, c := range []struct {
		name, wait, peer string
		of               []tachyon.Frame
		idle             bool
	}{
		{"the next message", "waitRead", "tcp :8080 from 127.0.0.1", nil, true},
		{"a body", "waitRead", "tcp :8080 from 127.0.0.1", []tachyon.Frame{analyzetest.Place("net/http.(*body).readLocked", 2)}, false},
		{"an answer", "waitRead", "tcp 127.0.0.1:6379", nil, false},
		{"a file", "waitRead", "file /data/news from 10.2.3.4", nil, false},
		{"a client that does not read", "waitWrite", "tcp :8080 from 127.0.0.1", nil, false},
	} {
		r := analyzetest.Record(t)
		r.Objects = append(r.Objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectConnection, Name: c.peer})
		stack := append(analyzetest.WaitFor("IO wait", 1), analyzetest.Place("internal/poll.(*pollDesc)."+c.wait, 2))
		stack = append(append(stack, c.of...), analyzetest.Place("main.(*hub).ServeHTTP", 3), analyzetest.Place("net/http.(*conn).serve", 4))
		r.Add(1, 1000, tachyon.Moved, stack...)
		src := r.Labelled().Source
		f := New(src, nil)
		for s := range testenv.All(t, src.Samples()) {
			testenv.Same(t, c.name+" is idle", f.Add(s) == KnownIdle, c.idle)
		}
	}
}

// A function that a literal calls is a loop for work if it ranges over what it has from elsewhere, by the text, also if each goroutine has a
// channel of its own. What it has asked for is an answer.
func TestRangesOfText(t *testing.T) {
	text := "package main\n\nfunc (h *handler) run() {\n\tfor range h.messages {\n\t}\n\trows := query()\n\tfor range rows {\n\t}\n}\n"
	for _, c := range []struct {
		line int32
		read func(string) *source.File
		idle bool
	}{
		{4, func(string) *source.File { return &source.File{Text: []byte(text)} }, true},
		{7, func(string) *source.File { return &source.File{Text: []byte(text)} }, false},
		{4, nil, false},
	} {
		r := analyzetest.Record(t)
		for g := uint64(1); g <= 2; g++ {
			r.Goroutine(tachyon.Goroutine{ID: g, CreatedBy: "main.main", First: analyzetest.Start, Last: analyzetest.Start + analyzetest.OneSecond})
			for n := uint64(1); n < 1000; n++ {
				r.Add(g, n*1000, tachyon.Moved, analyzetest.Wait("chan receive"), tachyon.Frame{File: "main.go", Func: "main.(*handler).run", Line: c.line}, analyzetest.Place("main.start.func1", 3))
			}
		}
		f := testenv.Must(Read(r.Labelled().Source, c.read))
		testenv.Same(t, fmt.Sprintf("line %d, with text %v: is idle", c.line, c.read != nil), len(f.waits) > 0 && f.Is(firstWait), c.idle)
	}
}
