package idle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// TestIdlePage holds the table of docs/idle.md: go test ./internal/analyze -run TestIdlePage -update.
func TestIdlePage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| function | calls | waits for | with labels |\n|---|---|---|---|\n")
	places := slices.Clone(idleTable)
	slices.SortStableFunc(places, func(a, b idlePlace) int { return cmp.Or(cmp.Compare(a.in, b.in), cmp.Compare(a.call, b.call)) })
	for _, p := range places {
		call, always := "`"+p.call+"`", ""
		switch p.call {
		case "":
			call = "–"
		case "*":
			call = "any"
		}
		if p.always {
			always = "idle"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", p.in, call, p.what, always)
	}
	testenv.Marked(t, "../../../docs/idle.md", "places", table.String(), *analyzetest.Update)
}

var waitForIO = []tachyon.Frame{
	analyzetest.Wait("IO wait"), analyzetest.Place("internal/poll.runtime_pollWait", 1), analyzetest.Place("internal/poll.(*FD).Read", 1),
	analyzetest.Place("net.(*netFD).Read", 1), analyzetest.Place("net.(*conn).Read", 1),
}

// Each known place is idle. In a goroutine with labels, and in a request, it is if the row says so. The same
// function is not idle where it waits for something else.
func TestIdlePlaces(t *testing.T) {
	for i := range idleTable {
		p := &idleTable[i]
		t.Run(p.in+" "+p.call, func(t *testing.T) {
			stack := []tachyon.Frame{analyzetest.Wait("select")}
			switch p.call {
			case "":
			case "*":
				stack = append(waitForIO[:len(waitForIO):len(waitForIO)], analyzetest.Place("example.org/any.Function", 3))
			default:
				stack = append(waitForIO[:len(waitForIO):len(waitForIO)], analyzetest.Place(p.call, 3))
			}
			stack = append(stack, analyzetest.Place(p.in, 7))
			lock := append([]tachyon.Frame{analyzetest.Wait("sync.Mutex.Lock"), analyzetest.Place("sync.(*Mutex).Lock", 1)}, stack[1:]...)
			send := append([]tachyon.Frame{analyzetest.Wait("chan send")}, stack[1:]...)
			other := append(append(waitForIO[:len(waitForIO):len(waitForIO)], analyzetest.Place("example.org/lib.other", 3)), stack[len(stack)-1])
			under := func(entry string, stack []tachyon.Frame) []tachyon.Frame {
				return append(stack[:len(stack):len(stack)], analyzetest.Place(entry, 1))
			}
			r := analyzetest.Record(t)
			for g, s := range [][]tachyon.Frame{
				under("main.plain", stack), under("main.labels", stack),
				under("main.request", append(stack[:len(stack):len(stack)], analyzetest.Place("main.(*h).ServeHTTP", 9))),
				under("main.other", other), under("main.runs", stack), under("main.lock", lock), under("main.send", send),
			} {
				id := uint64(10 + g)
				status := tachyon.Status(0)
				if g == 4 {
					status = analyzetest.Running
				}
				r.Every(1000, 1000, 100_000, id, status, s...)
				info := tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "main.go:1", First: analyzetest.Start, Last: analyzetest.Start + 100_000}
				if g == 1 {
					info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{"request": "1"}}}
				}
				r.Goroutine(info)
			}
			idle, work, _ := idleOf(t, r.Labelled(), false)
			for entry, want := range map[string]bool{"main.plain": true, "main.labels": p.always, "main.request": p.always, "main.other": p.call == "*", "main.runs": false, "main.lock": false, "main.send": false} {
				is := idle[entry] > 0
				testenv.FailIf(t, is != want || idle[entry]+work[entry] != 100 || is && work[entry] > 0, "%s: %d ms idle, %d ms not, want idle %v", entry, idle[entry], work[entry], want)
			}
		})
	}
}

// The reasons that only the runtime's goroutines have are idle, and so are its goroutines' other waits. Its work
// on a CPU is not.
func TestIdleRuntime(t *testing.T) {
	r := analyzetest.Record(t)
	add := func(id uint64, interpreter uint32, status tachyon.Status, frames ...tachyon.Frame) {
		t.Helper()
		for at := uint64(1000); at <= 100_000; at += 1000 {
			testenv.OK(t, r.W.WriteFrames(&tachyon.Sample{Thread: id, Interpreter: interpreter, Time: analyzetest.Start + at, Status: status}, frames))
		}
	}
	id := uint64(10)
	for why := range idleReasons {
		add(id, tachyon.User, 0, analyzetest.Wait(why), analyzetest.Place("main.own", 1))
		id++
	}
	add(id, tachyon.Runtime, 0, analyzetest.Wait("sleep"), analyzetest.Place("runtime.bgscavenge", 1))
	add(id+1, tachyon.Runtime, analyzetest.Running, analyzetest.Place("runtime.gcBgMarkWorker", 1))
	add(id+2, tachyon.User, 0, analyzetest.Wait("GC assist wait"), analyzetest.Place("main.allocates", 1))
	idle, work, _ := idleOf(t, analyzetest.SamplesOf(t, stream.Options{}, r.Finish(tachyon.Session{Source: "native", Markers: true, System: true})), false)
	testenv.Same(t, "idle", fmt.Sprint(idle), fmt.Sprint(map[string]int{"main.own": 100 * len(idleReasons), "runtime.bgscavenge": 100}))
	testenv.Same(t, "not idle", fmt.Sprint(work), "map[main.allocates:100 runtime.gcBgMarkWorker:100]")
}
