package analyze

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// leakSession returns what recordLeaks has recorded, which several tests read, and when the leaked goroutines began to wait.
func leakSession(t testing.TB, o stream.Options) (*Samples, []uint64) {
	t.Helper()
	leaking.once.Do(func() { leaking.file, leaking.leaked = recordLeaks(t) })
	return samplesOf(t, o, leaking.file), leaking.leaked
}

var leaking struct {
	once   sync.Once
	file   *reader.Reader
	leaked []uint64
}

const leakSeconds = 30

// recordLeaks records a leak of 50 a minute among 5,000 goroutines a second that end. Beside them:
// a pool that grows as fast, whose members work now and then; workers that begin and wait for good
// in the first seconds; a place where every hundredth wait does not end.
func recordLeaks(t testing.TB) (f *reader.Reader, began []uint64) {
	r := record(t)
	rng := rand.New(rand.NewPCG(1, 2))
	id := uint64(100)
	created := func(at uint64, by string) uint64 {
		id++
		r.goroutine(tachyon.Goroutine{ID: id, Parent: 1, CreatedBy: by, CreatedAt: by + ".go:7", First: at, Last: leakSeconds * second, FirstWeight: 100})
		return id
	}
	receive, send := tachyon.Frame{Func: "[chan receive]"}, tachyon.Frame{Func: "[chan send]"}
	sleep := tachyon.Frame{Func: "[sleep]"}
	type member struct {
		id, next uint64 // next: time of its next job, µs
	}
	var leaked, sometimes []uint64
	var pool []*member
	var early []uint64
	for at := uint64(100); at < leakSeconds*second; at += 1000 {
		tick := at / 1000
		if tick%1200 == 600 {
			leaked = append(leaked, created(at, "main.serve"))
			began = append(began, at-100)
		}
		if tick%1200 == 300 {
			pool = append(pool, &member{created(at, "main.grow"), at + rng.Uint64N(second)})
		}
		if tick < 3000 && tick%100 == 0 {
			early = append(early, created(at, "main.init"))
		}
		for range 5 {
			g := created(at, "main.handle")
			r.add(g, at, running, place("main.parse", 3), place("main.handle.func1", 9))
			if rng.IntN(100) == 0 && tick%8 == 0 && tick%1000 > 800 {
				r.add(g, at+200, 0, send, place("main.reply", 30), place("main.handle.func1", 10))
				sometimes = append(sometimes, g)
				continue
			}
			if rng.IntN(3) == 0 {
				r.add(g, at+900, 0, send, place("main.reply", 30), place("main.handle.func1", 10))
			}
		}
		if tick%20 != 0 { // waiting goroutines have their samples in turns
			continue
		}
		for _, g := range leaked {
			r.add(g, at, 0, receive, place("main.serve.func1", 21))
		}
		for _, g := range sometimes {
			r.add(g, at, 0, send, place("main.reply", 30), place("main.handle.func1", 10))
		}
		for _, g := range early {
			r.add(g, at, 0, sleep, place("time.Sleep", 300), place("main.idle", 50))
		}
		for _, m := range pool {
			if at >= m.next {
				m.next = at + uint64(rng.ExpFloat64()*3*second)
				r.add(m.id, at, running, place("main.job", 77), place("main.worker", 42))
				continue
			}
			r.add(m.id, at, 0, receive, place("main.worker", 41))
		}
	}
	return r.finish(tachyon.Session{Source: "native", Markers: true}), began
}

func find(list []LeakGroup, function string) *LeakGroup {
	for i := range list {
		if list[i].Function == function {
			return &list[i]
		}
	}
	return nil
}

func TestLeaks(t *testing.T) {
	s, leaked := leakSession(t, stream.Options{})
	l := must(FindLeaks(s))(t)
	for _, g := range l.Groups {
		t.Logf("%+v", g)
	}
	g := find(l.Groups, "main.serve.func1")
	switch {
	case g == nil:
		t.Fatal("the leak is in no group")
	case !g.Suspect || &l.Groups[0] != g && !l.Groups[0].Suspect:
		t.Error("the leak is no suspect")
	case g.CreatedBy != "main.serve" || g.CreatedAt != "main.serve.go:7" || g.Reason != "chan receive" || g.Line != 21:
		t.Errorf("the leak is %+v", g)
	case g.Start != 0 || g.End != len(leaked) || g.RanAgain != 0:
		t.Errorf("%d to %d goroutines, %d ran again; want 0 to %d, 0", g.Start, g.End, g.RanAgain, len(leaked))
	case math.Abs(g.PerMinute-50) > 2.5 || g.Low > g.PerMinute || g.Low < 40:
		t.Errorf("%.1f a minute, at least %.1f; want 50", g.PerMinute, g.Low)
	}
	if want := time.Duration(leakSeconds*second-leaked[0]) * time.Microsecond; (g.Oldest - want).Abs() > 50*time.Millisecond {
		t.Errorf("the oldest is %v old, want %v", g.Oldest, want)
	}
	// Most of the waits at this place end, but some never do.
	if g := find(l.Groups, "main.reply"); g == nil || !g.Suspect || g.RanAgain < 1000 || g.Unstuck > 0 {
		t.Errorf("every hundredth wait leaks: %+v", g)
	}
	pool := find(l.Groups, "main.worker")
	if pool == nil || math.Abs(pool.PerMinute-50) > 5 || pool.RanAgain < 10 {
		t.Errorf("the pool is %+v", pool)
	}
	for _, g := range l.Groups {
		if g.Suspect && g.Function != "main.serve.func1" && g.Function != "main.reply" {
			t.Errorf("%s is a suspect: %+v", g.Function, g)
		}
	}
	if find(l.Groups, "main.idle") != nil {
		t.Error("workers that all began at the start are a group that grows")
	}
}

// A wait that spans the files of a session is one wait.
func TestLeaksOfFiles(t *testing.T) {
	var files []*reader.Reader
	const half = 10 * second
	for part := range uint64(2) {
		r := record(t)
		for i := range uint64(20) {
			began := i * second
			r.goroutine(tachyon.Goroutine{ID: 10 + i, CreatedBy: "main.serve", CreatedAt: "main.go:7", FirstWeight: 1000})
			for at := max(began, part*half) + 1000; at <= (part+1)*half; at += 10_000 {
				r.add(10+i, at, 0, tachyon.Frame{Func: "[select]"}, place("main.watch", 5))
			}
		}
		files = append(files, r.finish(tachyon.Session{
			Source: "native", PID: 1, Part: int(part) + 1, Start: time.UnixMicro(start + int64(part)*half), SessionStart: time.UnixMicro(start),
		}))
	}
	for _, list := range [][]*reader.Reader{files, {files[1], files[0]}} {
		l := must(FindLeaks(samplesOf(t, stream.Options{}, list...)))(t)
		if len(l.Groups) != 1 || l.Goroutines != 20 {
			t.Fatalf("%d goroutines, groups %+v", l.Goroutines, l.Groups)
		}
		if g := l.Groups[0]; !g.Suspect || g.End != 20 || g.RanAgain != 0 || g.Oldest < 19*time.Second || g.CreatedBy != "main.serve" {
			t.Errorf("%+v", g)
		}
	}
}

// The slope of a line is that of its points, whatever the noise does with some of them.
func TestTheilSen(t *testing.T) {
	line := make([]float64, 100)
	for i := range line {
		line[i] = 3 + 0.5*float64(i)
		if i%9 == 0 {
			line[i] = 1000
		}
	}
	if slope, low := theilSen(line); math.Abs(slope-0.5) > 0.02 || low > slope || low < 0.3 {
		t.Errorf("slope %v, at least %v", slope, low)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	grows := 0
	for range 200 {
		for i := range line {
			line[i] = rng.NormFloat64()
		}
		if _, low := theilSen(line); low > 0 {
			grows++
		}
	}
	if grows == 0 || grows > 12 { // 2.5 % of 200 are 5
		t.Errorf("noise grows in %d of 200 trials", grows)
	}
	step := make([]float64, 100)
	for i := range step {
		if i >= 50 {
			step[i] = 10
		}
	}
	if _, low := theilSen(step); low > 0 {
		t.Errorf("a step grows by at least %v", low)
	}
	if slope, low := theilSen([]float64{1, 2, 3}); slope != 0 || low != 0 {
		t.Errorf("of three values: %v, %v", slope, low)
	}
}

// Bins keep their sum when their width doubles.
func TestSeries(t *testing.T) {
	c := clock{width: 1000}
	var s series
	for at := uint64(0); at < 10*second; at += 700 {
		c.cover(at + 700)
		s.add(&c, at, at+350)
	}
	c.cover(10 * second)
	for i, n := range s.average(&c, 10*second) {
		if math.Abs(n-0.5) > 0.01 {
			t.Errorf("bin %d has %v on average, want 0.5", i, n)
		}
	}
	if c.width != 128_000 {
		t.Errorf("the width is %d", c.width)
	}
}

// Handlers that never return are leaked. The goroutines that read from their connections end with them.
func TestLeaksBackgroundRead(t *testing.T) {
	r := record(t)
	for at := uint64(1000); at < 20*second; at += 20_000 {
		for i := range min(at/second, 15) {
			r.add(100+i, at, 0, tachyon.Frame{Func: "[chan send]"}, place("main.(*h).ServeHTTP", 3), place("net/http.(*conn).serve", 9))
			r.add(200+i, at, 0, tachyon.Frame{Func: "[IO wait]"}, place("internal/poll.(*FD).Read", 3), place("net/http.(*connReader).backgroundRead", 9))
			r.add(300+i, at, 0, tachyon.Frame{Func: "[IO wait]"}, place("bufio.(*Reader).Peek", 3), place("net/http.(*conn).serve", 9))
		}
	}
	for i := range uint64(15) {
		for n, by := range []string{"net/http.(*Server).Serve", backgroundRead, "net/http.(*Server).Serve"} {
			r.goroutine(tachyon.Goroutine{ID: 100*uint64(n+1) + i, CreatedBy: by, CreatedAt: "server.go:7", First: (i + 1) * second, Last: 20 * second, FirstWeight: 1000})
		}
	}
	l := must(FindLeaks(r.close()))(t)
	if len(l.Groups) != 2 || !l.Groups[0].Suspect || !l.Groups[1].Suspect {
		t.Fatalf("%+v", l.Groups)
	}
	for _, g := range l.Groups {
		if want := map[string]string{"chan send": "", "IO wait": "the next request"}[g.Reason]; g.For != want {
			t.Errorf("%+v: want %q", g, want)
		}
	}
}
