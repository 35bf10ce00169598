//go:build measure

package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"

	"github.com/DataDog/gostackparse"
	"github.com/maruel/panicparse/v2/stack"
)

// At instants of a session, gotach stacks says what runtime.Stack said then: the same stack and state of goroutines that waited. Of others
// it says what they did at the nearest tick; it is printed how many are further off than the mean time between two ticks, as ticks are
// not even. At night these are a thousand instants.
func TestMeasureStacks(t *testing.T) {
	defer inStates(t)()
	bin := testenv.Must(testenv.BuildGotach(t.TempDir()))
	measure.AtMost(t, "goroutines that waited, of which gotach stacks says something else than runtime.Stack", "%", 1, func() float64 {
		path := filepath.Join(t.TempDir(), "x.tach")
		s := testenv.Must(profiler.Open(profiler.Output(path)))
		buf := make([]byte, 1<<20)
		type moment struct {
			at   time.Time
			text string
		}
		var list []moment
		for range testenv.Times(30, 1000) {
			time.Sleep(30 * time.Millisecond)
			before := time.Now()
			text := string(buf[:runtime.Stack(buf, true)])
			list = append(list, moment{before.Add(time.Since(before) / 2), text})
		}
		time.Sleep(100 * time.Millisecond)
		testenv.OK(t, s.Stop())
		file := testenv.Closes(t, testenv.Must(reader.Open(path)))
		source := testenv.Must(stream.New([]stream.File{{Stream: file}}, stream.Options{Labels: true, Creators: true}))
		samples, session := analyze.NewSamples("", source), source.Metadata().Session
		tick := session.Duration / time.Duration(max(1, session.TicksReached))
		waited, wrong, others, far := 0, 0, 0, 0
		for i, x := range list {
			at := x.at.Local().Format("2006-01-02T15:04:05.000000")
			then := testenv.Must(instant.Find(samples, instant.Options{At: testenv.Must(stream.ParseMoment(at))}))
			text := string(instant.Text(then.Goroutines))
			if i == 0 {
				testenv.Has(t, "gotach stacks", run(t, "", nil, bin, "stacks", path, "--at", at), text)
			}
			s, _, _ := stack.ScanSnapshot(strings.NewReader(text), new(bytes.Buffer), stack.DefaultOpts())
			testenv.StopIf(t, s == nil || len(s.Goroutines) != len(then.Goroutines), "panicparse does not read %d goroutines from %q", len(then.Goroutines), text)
			ours, seen := map[int]*gostackparse.Goroutine{}, map[int]time.Duration{}
			for n, g := range parsed(t, text) {
				ours[g.ID], seen[g.ID] = g, then.Goroutines[n].Seen.Abs()
			}
			for _, g := range parsed(t, x.text) {
				if strings.Contains(calls(g), "profiler/sampler") { // the profiler's own
					continue
				}
				o := ours[g.ID]
				same := o != nil && o.State == g.State && calls(o) == calls(g)
				if g.State == "running" || g.State == "runnable" || strings.Contains(calls(g), ".brief") {
					others++
					if !same && (o == nil || seen[g.ID] >= tick) {
						far++
					}
					continue
				}
				waited++
				if !same {
					if wrong++; wrong > 3 {
						continue
					}
					t.Logf("%d [%s] %s; gotach stacks: %+v", g.ID, g.State, calls(g), o)
				}
			}
		}
		t.Logf("%d instants: %d goroutines waited, %d wrong; of %d that ran or waited shortly %d are off by a tick, %v, or more", len(list), waited, wrong, others, far, tick)
		return 100 * float64(wrong) / float64(waited)
	})
}

// parsed reads what runtime.Stack or gotach printed. The parser refuses labels, so nothing here has any.
func parsed(t *testing.T, text string) []*gostackparse.Goroutine {
	t.Helper()
	list, errs := gostackparse.Parse(strings.NewReader(text))
	testenv.OK(t, errors.Join(errs...))
	return list
}

// calls returns a goroutine's functions, innermost first.
func calls(g *gostackparse.Goroutine) string {
	var list []string
	for _, f := range g.Stack {
		list = append(list, f.Func)
	}
	return strings.Join(list, " < ")
}

// inStates starts fifty goroutines in all states. Those in brief wait for less than a tick. The result ends them.
func inStates(t *testing.T) (end func()) {
	stop := make(chan struct{})
	var group, never sync.WaitGroup
	var mu, condMu sync.Mutex
	cond, over := sync.NewCond(&condMu), false
	never.Add(1)
	mu.Lock()
	start := func(n int, f func()) {
		for range n {
			group.Go(f)
		}
	}
	start(10, func() { <-stop })
	start(5, func() {
		select {
		case <-stop:
		case <-make(chan int):
		}
	})
	start(5, func() {
		mu.Lock()
		defer mu.Unlock()
	})
	start(5, never.Wait)
	start(5, func() {
		condMu.Lock()
		for !over {
			cond.Wait()
		}
		condMu.Unlock()
	})
	start(8, func() { naps(stop, 100*time.Millisecond) })
	start(6, func() { brief(stop) })
	start(1, func() {
		for n := 0; ; n++ {
			if n%1000 == 0 && closed(stop) {
				return
			}
		}
	})
	r, w := testenv.Must2(os.Pipe())
	start(4, func() { _, _ = r.Read(make([]byte, 1)) })
	var raw [2]int
	testenv.OK(t, syscall.Pipe(raw[:]))
	start(1, func() { _, _ = syscall.Read(raw[0], make([]byte, 1)) })
	return func() {
		close(stop)
		mu.Unlock()
		never.Done()
		condMu.Lock()
		over = true
		condMu.Unlock()
		cond.Broadcast()
		w.Close()
		syscall.Close(raw[1])
		group.Wait()
		r.Close()
		syscall.Close(raw[0])
	}
}

func closed(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

func naps(stop chan struct{}, d time.Duration) {
	for !closed(stop) {
		time.Sleep(d)
	}
}

func brief(stop chan struct{}) { naps(stop, time.Millisecond) }

// The last sample in the file of a killed program is at most 100 ms old. TestCrashLoop holds that what was passed on is in the file.
func TestMeasureKilled(t *testing.T) {
	measure.AtMost(t, "age of the last sample after kill -9, the oldest of four", "ms", 100, func() (oldest float64) {
		for range 4 {
			_, p, _, at := killed(t, true, 500*time.Millisecond, "GOTACH_TEST_LOOP=goes on", "PROFILE_OUT="+filepath.Join(t.TempDir(), "x.tach"))
			oldest = max(oldest, float64(at.UnixMicro()-int64(p.last))/1000)
		}
		return oldest
	})
}

// Before it ends, the native source visits all goroutines once more, for 400 ms at most. One tick is mostly
// enough, also if the only goroutines that have moved lately have ended.
func TestMeasureStopSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	end := make(chan bool)
	defer close(end)
	go func() { <-end }()
	measure.AtMost(t, "Stop right after Start, the median of 11", "ms", 100, func() float64 {
		var took []time.Duration
		for range 11 {
			s := profiler.Start(profiler.Output(path), profiler.Rate(10000))
			timer := time.AfterFunc(time.Minute, func() {})
			begin := time.Now()
			testenv.OK(t, s.Stop())
			took = append(took, time.Since(begin))
			timer.Stop()
		}
		slices.Sort(took)
		return float64(took[len(took)/2].Microseconds()) / 1000
	})
}
