package instant

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// moves has goroutines that do different things around 100 ms. Its ticks are 10 ms apart.
func moves(t *testing.T) *analyzetest.Recording {
	r := analyzetest.Record(t)
	wait := analyzetest.Place("main.wait", 3)
	sleep := tachyon.Frame{Func: "[sleep]"}
	receive := tachyon.Frame{Func: "[chan receive]"}
	r.Every(10_000, 5_000, 195_000, 1, 0, sleep, wait)                                        // waits all the time
	r.Every(10_000, 5_000, 95_000, 2, analyzetest.Running, analyzetest.Place("main.a", 4))    // runs elsewhere from 95 ms on
	r.Every(10_000, 105_000, 195_000, 2, analyzetest.Running, analyzetest.Place("main.b", 5)) //
	r.Every(10_000, 12_000, 92_000, 3, 0, sleep, wait)                                        // wakes up after 92 ms
	r.Every(10_000, 102_000, 192_000, 3, analyzetest.Running, analyzetest.Place("main.c", 6)) //
	r.Every(10_000, 18_000, 88_000, 4, 0, receive, wait)                                      // ended
	r.Every(10_000, 118_000, 198_000, 5, 0, receive, wait)                                    // began later
	r.Add(6, 1_000, tachyon.GILRequested, tachyon.Frame{Func: "[runnable]"}, wait)            // waits from 1 ms on, seen once more
	r.Add(6, 160_000, tachyon.GILRequested, tachyon.Frame{Func: "[runnable]"}, wait)
	r.Goroutine(tachyon.Goroutine{ID: 1, First: 5_000})
	r.Goroutine(tachyon.Goroutine{
		ID: 2, Parent: 1, CreatedBy: "main.main", CreatedAt: "/m/main.go:9", First: 5_000,
		Labels: []tachyon.LabelSpan{{From: 5_000, Labels: map[string]string{"a": "1"}}},
	})
	r.Goroutine(tachyon.Goroutine{ID: 4, First: 18_000, Last: 88_000})
	r.Goroutine(tachyon.Goroutine{ID: 5, First: 118_000, FirstWeight: 8_000})
	return r
}

// instantText returns goroutines in short: their id, state, stack, and when they were seen.
func instantText(x *Instant) string {
	var list []string
	for _, g := range x.Goroutines {
		text := fmt.Sprint(g.ID, " ", g.State)
		for _, f := range g.Frames {
			text += " " + f.Func
		}
		if g.Seen != 0 {
			text += fmt.Sprintf(" %+d", g.Seen.Milliseconds())
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func at(t *testing.T, text string) stream.Moment {
	return testenv.Must(stream.ParseMoment(text))
}

// A goroutine that waits before and after an instant did so at the instant. Of another one the nearest sample counts.
func TestInstant(t *testing.T) {
	options := stream.Options{Labels: true}
	for _, c := range []struct{ at, want string }{
		{"99ms", "1 sleep main.wait; 2 running main.a -4; 3 running main.c +3; 6 runnable main.wait +61"},
		{"101ms", "1 sleep main.wait; 2 running main.b +4; 3 running main.c +1; 6 runnable main.wait +59"},
		{"50ms", "1 sleep main.wait; 2 running main.a -5; 3 sleep main.wait; 4 chan receive main.wait; 6 runnable main.wait -49"},
		{"92ms", "1 sleep main.wait; 2 running main.a +3; 3 sleep main.wait; 6 runnable main.wait +68"},
		{"112ms", "1 sleep main.wait; 2 running main.b +3; 3 running main.c; 5 chan receive main.wait +6; 6 runnable main.wait +48"},
		{"95ms", "1 sleep main.wait; 2 running main.a; 3 sleep main.wait -3; 6 runnable main.wait +65"},
		// At the end the last samples count.
		{"-0s", "1 sleep main.wait -5; 2 running main.b -5; 3 running main.c -8; 5 chan receive main.wait -2; 6 runnable main.wait -40"},
	} {
		s := analyzetest.SamplesOf(t, options, moves(t).Finish(tachyon.Session{Source: "native", Markers: true, Duration: 200 * time.Millisecond}))
		testenv.Same(t, fmt.Sprint("at ", c.at), instantText(testenv.Must(Find(s, Options{At: at(t, c.at)}))), c.want)
	}
}

func TestInstantFacts(t *testing.T) {
	s := analyzetest.SamplesOf(t, stream.Options{Labels: true}, moves(t).Finish(tachyon.Session{Source: "native", Markers: true}))
	x := testenv.Must(Find(s, Options{At: at(t, "92ms")}))
	g := x.Goroutines[0]
	testenv.FailIf(t, g.Waited != 92*time.Millisecond-4*time.Millisecond, "goroutine 1 waited %v", g.Waited) // its first sample stands for a tick, 1 ms
	g = x.Goroutines[1]
	testenv.Same(t, "goroutine 2", fmt.Sprintln(g.Parent, g.CreatedBy, g.CreatedAt, g.Labels, g.Waited, g.Frames[0]), "1 main.main /m/main.go:9 map[a:1] 0s {main.a /home/u/app/main.a.go 4}\n")
	testenv.Same(t, "the instant", fmt.Sprint(x.At, x.Time.UnixMicro(), x.Busiest), fmt.Sprint(92*time.Millisecond, analyzetest.Start+92_000, false))
	testenv.Same(t, "in state sleep", instantText(testenv.Must(Find(s, Options{At: at(t, "92ms"), States: []string{"SLEEP"}}))), "1 sleep main.wait; 3 sleep main.wait")
}

// A goroutine that waits from one file of a session to the next did so in between.
func TestInstantOfFiles(t *testing.T) {
	sleep := tachyon.Frame{Func: "[sleep]"}
	a := analyzetest.Record(t)
	a.Every(10_000, 10_000, 100_000, 1, 0, sleep, analyzetest.Place("main.wait", 3))
	a.Every(10_000, 10_000, 100_000, 2, 0, sleep, analyzetest.Place("main.wait", 3))
	b := analyzetest.RecordFrom(t, analyzetest.Start+102_000)
	b.Every(10_000, 110_000, 200_000, 1, 0, sleep, analyzetest.Place("main.wait", 3))
	b.Every(10_000, 110_000, 200_000, 2, analyzetest.Running, analyzetest.Place("main.b", 4))
	b.Goroutine(tachyon.Goroutine{ID: 1, Parent: 7, FirstWeight: 10_000})
	b.Goroutine(tachyon.Goroutine{ID: 2, Parent: 1, FirstWeight: 10_000})
	session := tachyon.Session{Source: "native", Markers: true, PID: 5}
	s := analyzetest.SamplesOf(t, stream.Options{Labels: true}, a.Finish(session), b.Finish(session))
	x := testenv.Must(Find(s, Options{At: at(t, "101ms")}))
	testenv.Same(t, "goroutines", fmt.Sprint(instantText(x), " ", x.Goroutines[0].Parent, x.Goroutines[0].Waited), "1 sleep main.wait; 2 sleep main.wait -1 7 92ms")
}

// Without an instant it is one at which the most goroutines wait, those left out that wait for work.
func TestInstantBusiest(t *testing.T) {
	r := analyzetest.Record(t)
	for id := range uint64(20) { // idle all the time
		r.Every(50_000, 50_000, 8_000_000, 100+id, 0, tachyon.Frame{Func: "[select (no cases)]"}, analyzetest.Place("main.block", 2))
	}
	lock := []tachyon.Frame{{Func: "[sync.Mutex.Lock]"}, analyzetest.Place("main.serve", 3)}
	for id := range uint64(4) {
		r.Every(10_000, 10_000, 5_000_000, 1+id, analyzetest.Running, analyzetest.Place("main.serve", 2))
		r.Every(10_000, 5_010_000, 5_010_000+500_000*(id+1), 1+id, 0, lock...)
		r.Every(10_000, 7_500_000, 8_000_000, 1+id, analyzetest.Running, analyzetest.Place("main.serve", 2))
	}
	x := testenv.Must(FindBusiest(analyzetest.SamplesOf(t, stream.Options{Labels: true}, r.Finish(tachyon.Session{Source: "native", Markers: true})), Options{}))
	testenv.Within(t, "the instant", x.At, 5_010*time.Millisecond, 5_520*time.Millisecond)
	testenv.FailIf(t, !x.Busiest || len(x.Goroutines) != 24 || x.Goroutines[3].State != "sync.Mutex.Lock", "%s", instantText(x))
}
