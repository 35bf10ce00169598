package report

import (
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// liveLock is a lock that a goroutine holds for long, while another one waits for it again and again.
type liveLock struct{ mu sync.Mutex }

func (l *liveLock) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
}

func (l *liveLock) await() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

func liveRequest() { time.Sleep(5 * time.Millisecond) }

func liveLeak(never chan int) { <-never }

// Each analysis finds what it is for in a session of the present profiler. How exactly is known from recorded sessions. The
// session runs until all has been found.
func TestFindingsOfProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	session := analyzetest.Must(profiler.Open(profiler.Output(path), profiler.Budget(100)))(t)
	defer session.Stop()
	stop, never := make(chan struct{}), make(chan int)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(never)
	defer close(stop)
	l := &liveLock{}
	for _, do := range []func(){
		l.hold, l.await,
		func() { liveRequest(); time.Sleep(time.Millisecond) },
		func() { all.Go(func() { liveLeak(never) }); time.Sleep(50 * time.Millisecond) },
	} {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	const pkg = "github.com/gotach/profiler/internal/analyze/report."
	missing := ""
	testenv.Await(func() bool {
		f, err := reader.Open(path)
		if err != nil {
			missing = err.Error()
			return false
		}
		defer f.Close()
		samples := func() *analyze.Samples {
			return analyzetest.SamplesOf(t, stream.Options{Labels: true, Objects: true}, f)
		}
		// What takes longest comes first. The rest is not looked for before it.
		if !slices.ContainsFunc(analyzetest.Must(leaks.Find(samples()))(t).Groups, func(g leaks.Group) bool {
			return g.Function == pkg+"liveLeak" && g.Suspect && g.Reason == "chan receive"
		}) {
			missing = "the leak"
			return false
		}
		// The portable source does not know for which lock a goroutine waits, nor does the native one with Go 1.25.
		m := analyzetest.Must(f.Metadata())(t).Session
		knowsObjects := m != nil && m.Objects == tachyon.AllObjects
		blocked := analyzetest.Must(locks.Find(samples(), locks.Options{}))(t)
		served := analyzetest.Must(requests.Find(samples(), requests.Options{Func: regexp.MustCompile(`report\.liveRequest$`)}))(t)
		waits := analyzetest.Must(locks.FindWaits(samples(), locks.WaitOptions{Func: regexp.MustCompile(`\(\*liveLock\)\.await$`)}))(t)
		missing = ""
		if i := slices.IndexFunc(blocked.Locks, func(x locks.Lock) bool { return x.IsLock() && x.Sites[0].Func == pkg+"(*liveLock).await" }); i < 0 {
			missing = "the lock"
		} else if h := blocked.Locks[i].Holder; knowsObjects && (h == nil || len(h.Lines) == 0 || h.Lines[0].Func != pkg+"(*liveLock).hold") {
			missing = "who holds the lock"
		} else if served.Count < 5 {
			missing = "requests"
		} else if !slices.ContainsFunc(waits.Chains, func(n locks.WaitNode) bool { return n.State == "sync.Mutex.Lock" && n.Time > 0 }) {
			missing = "the wait for the lock"
		}
		return missing == ""
	})
	if missing != "" {
		t.Error(missing + " is not found")
	}
}
