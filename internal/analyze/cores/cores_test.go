package cores

import (
	"fmt"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

const ms = 1000 // µs

// charged adds up who had the cores while goroutines of a recording waited, in ms.
func charged(t *testing.T, r *analyzetest.Recording, session tachyon.Session) map[string]float64 {
	t.Helper()
	src := analyzetest.SamplesOf(t, stream.Options{Labels: true, Creators: true}, r.Finish(session)).Source
	c := New(src)
	for s := range testenv.All(t, src.Samples()) {
		c.Add(s)
	}
	c.Finish()
	got := map[string]float64{}
	for s := range testenv.All(t, src.Samples()) {
		if Waits(s) {
			c.Charge(s, func(name string, us float64) { got[name] += us / ms })
		}
	}
	return got
}

// two is a session on two cores that lasts for a second.
var two = tachyon.Session{Source: "native", Markers: true, GOMAXPROCS: 2, Duration: time.Second}

func goroutine(r *analyzetest.Recording, id uint64, labels map[string]string) {
	g := tachyon.Goroutine{ID: id, FirstWeight: ms}
	if labels != nil {
		g.Labels = []tachyon.LabelSpan{{Labels: labels}}
	}
	r.Goroutine(g)
}

func want(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for name := range got {
		_, ok := want[name]
		testenv.FailIf(t, !ok, "%s has %v ms", name, got[name])
	}
	for name, x := range want {
		testenv.Within(t, name, got[name], 0.999*x, 1.001*x)
	}
}

// In the first half of the session a noisy neighbour has both cores, in the third quarter a core, in the last one none. A goroutine with another
// label is runnable for 50 ms now and then, and one without labels runs on a core in the third quarter.
func TestNoisyNeighbour(t *testing.T) {
	r := analyzetest.Record(t)
	runnable := tachyon.Frame{Func: tachyon.FuncRunnable}
	work, serve, rebuild := analyzetest.Place("main.work", 1), analyzetest.Place("main.serve", 2), analyzetest.Place("main.rebuild", 3)
	sleep := tachyon.Frame{Func: "[sleep]"}
	r.Every(ms, ms, 500*ms, 1, analyzetest.Running, work)
	r.Every(ms, ms, 750*ms, 2, analyzetest.Running, work)
	for _, x := range [][2]uint64{{0, 200}, {200, 500}, {500, 900}, {900, 1000}} {
		r.Every(ms, x[0]*ms+ms, (x[0]+50)*ms, 3, tachyon.GILRequested, runnable, serve)
		r.Every(ms, (x[0]+50)*ms+ms, x[1]*ms, 3, 0, sleep, serve)
	}
	r.Every(ms, 500*ms+ms, 750*ms, 4, analyzetest.Running, rebuild)
	for id, labels := range []map[string]string{1: {"tenant": "bulk"}, 2: {"tenant": "bulk"}, 3: {"tenant": "small"}, 4: nil} {
		if id > 0 {
			goroutine(r, uint64(id), labels)
		}
	}
	want(t, charged(t, r, two), map[string]float64{
		"label tenant=bulk": 50 + 50 + 25, "main.rebuild": 25, Free: 50, // of 500 to 550 each has a core; from 900 on nothing runs
	})
}

// A goroutine that runs without a core lacks it because of other programs, or of the quota. Those that are runnable wait for it all the same.
func TestOthers(t *testing.T) {
	record := func() *analyzetest.Recording {
		r := analyzetest.Record(t)
		work := analyzetest.Place("main.work", 1)
		r.Every(ms, ms, 100*ms, 1, analyzetest.Running, work)
		r.Every(ms, ms, 100*ms, 2, tachyon.HasGIL, work)
		r.Every(ms, ms, 100*ms, 3, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, work)
		for id := range uint64(3) {
			goroutine(r, id+1, nil)
		}
		return r
	}
	want(t, charged(t, record(), two), map[string]float64{"main.work": 100, Others: 100})
	throttled := two
	throttled.Throttled = 100 * time.Millisecond
	want(t, charged(t, record(), throttled), map[string]float64{"main.work": 100, Quota: 100})
}

// If more goroutines wait than cores are free as far as is known, the kernel gives the threads of the program none.
func TestMoreWaitThanCoresAreFree(t *testing.T) {
	r := analyzetest.Record(t)
	for id := uint64(1); id <= 4; id++ {
		r.Every(ms, ms, 100*ms, id, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, analyzetest.Place("main.work", 1))
		goroutine(r, id, nil)
	}
	want(t, charged(t, r, two), map[string]float64{Others: 400})
}

// A label with a value for each request names nobody, one beside it does.
func TestLabelsOfRequests(t *testing.T) {
	r := analyzetest.Record(t)
	runnable := tachyon.Frame{Func: tachyon.FuncRunnable}
	for id := uint64(1); id <= 100; id++ {
		r.Every(ms, id*10*ms-9*ms, id*10*ms, id, analyzetest.Running, analyzetest.Place("main.work", 1))
		labels := map[string]string{"request": fmt.Sprint(id), "tenant": "bulk"}
		if id > 50 {
			delete(labels, "tenant")
		}
		goroutine(r, id, labels)
	}
	r.Every(ms, ms, 1000*ms, 200, tachyon.GILRequested, runnable, analyzetest.Place("main.serve", 1))
	goroutine(r, 200, nil)
	one := two
	one.GOMAXPROCS = 1
	want(t, charged(t, r, one), map[string]float64{"label tenant=bulk": 500, "main.work": 500})
}

// Where three of four cores are seen in use, all of them are taken: what is known of an instant is rough.
func TestNearlyAllCores(t *testing.T) {
	r := analyzetest.Record(t)
	for id := uint64(1); id <= 3; id++ {
		r.Every(ms, ms, 100*ms, id, analyzetest.Running, analyzetest.Place("main.work", 1))
		goroutine(r, id, nil)
	}
	r.Every(ms, ms, 100*ms, 4, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, analyzetest.Place("main.serve", 1))
	goroutine(r, 4, nil)
	four := two
	four.GOMAXPROCS = 4
	want(t, charged(t, r, four), map[string]float64{"main.work": 100})
}

// CPU time of the scheduler is the runtime's, whatever its innermost function is. That of C threads has a name of its own.
func TestRows(t *testing.T) {
	r := analyzetest.Record(t)
	r.Every(ms, ms, 50*ms, tachyon.FirstPseudo, tachyon.OnCPU, analyzetest.Place("runtime.futex", 1), tachyon.Frame{Func: tachyon.FuncScheduler})
	r.Every(ms, 50*ms+ms, 100*ms, tachyon.FirstPseudo, tachyon.OnCPU, analyzetest.Place("runtime.usleep", 1), tachyon.Frame{Func: tachyon.FuncScheduler})
	r.Every(ms, ms, 100*ms, tachyon.FirstPseudo+1<<16, tachyon.OnCPU, tachyon.Frame{Func: tachyon.FuncC})
	r.Every(ms, ms, 100*ms, 1, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, analyzetest.Place("main.work", 1))
	goroutine(r, 1, nil)
	want(t, charged(t, r, two), map[string]float64{Runtime: 50, tachyon.FuncC: 50})
}
