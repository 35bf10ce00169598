//go:build measure

package locks

import (
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// The holder that a profile shows is who the program's log says it was.
func TestMeasureHolders(t *testing.T) {
	record := analyzetest.Recorder(t)
	for _, name := range []string{"two-of-one-type", "nested", "places"} {
		measure.AtMost(t, name+": ticks without the right holder", "%", 5, func() float64 {
			got, _ := compareHolders(t, record(name), Options{Channels: name == "places", Source: analyzetest.SourceOfSessions})
			return 100 - 100*float64(got.right)/float64(got.all())
		})
	}
}

// Of the time that is given a cause, at least 95 % is right, for each kind of answer: TestCauses with new recordings.
func TestMeasureCauses(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "causes")
	build := exec.Command("go", "build", "-o", bin, "./causes")
	build.Dir, build.Env = "../../../bench/e2e/testdata/peers", append(os.Environ(), "GOWORK=off") // a module that is not in the workspace
	testenv.Run(t, build)
	measure.AtMost(t, "time with a wrong cause, of the kind of answer that has the most of it", "%", 5, func() float64 {
		all := map[string]causeSums{}
		for kind := range causesPlanted {
			path := filepath.Join(dir, kind+".tach")
			testenv.Run(t, exec.Command(bin, kind, "2s", path))
			f := testenv.Must(reader.Open(path))
			sums := judgeCauses(t, f)
			for _, key := range slices.Sorted(maps.Keys(sums)) {
				t.Logf("%-10s %-60s %v", kind, key, sums[key])
			}
			addCauses(all, sums)
			testenv.OK(t, f.Close())
		}
		worst := 0.0
		for role, sum := range all {
			t.Logf("%-60s %v", role, sum)
			if given := sum[0] + sum[1]; given > 0 {
				worst = max(worst, 100*float64(sum[1])/float64(given))
			}
		}
		return worst
	})
}

// busyFor computes for a time.
func busyFor(d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d; {
	}
}

//go:noinline
func busyUse(l sync.Locker, d time.Duration) {
	l.Lock()
	busyFor(d)
	l.Unlock()
}

// A busySemaphore is a channel that is used as a lock.
type busySemaphore chan struct{}

func (s busySemaphore) Lock()   { s <- struct{}{} }
func (s busySemaphore) Unlock() { <-s }

// blocked returns how often goroutines have waited in busyUse, by the runtime's block profile.
func blocked() (n int64) {
	records := make([]runtime.BlockProfileRecord, 10_000)
	got, _ := runtime.BlockProfile(records)
	for _, r := range records[:got] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); strings.HasSuffix(f.Function, ".busyUse") {
				n += r.Count
				break
			}
		}
	}
	return n
}

// countedWaits profiles goroutines that do something, with 50 ticks a second. It returns what is said of the lock in busyUse beside
// how often goroutines waited there.
func countedWaits(t *testing.T, goroutines int, do func()) (Lock, int64) {
	t.Helper()
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	path, before := filepath.Join(t.TempDir(), "x.tach"), blocked()
	session := testenv.Must(profiler.Open(profiler.Output(path), profiler.Rate(50)))
	var all sync.WaitGroup
	var stop atomic.Bool
	for range goroutines {
		all.Go(func() {
			for !stop.Load() {
				do()
			}
		})
	}
	time.Sleep(4 * time.Second)
	stop.Store(true)
	all.Wait()
	n := blocked() - before
	testenv.OK(t, session.Stop())
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	l := testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{Objects: true}, r), Options{}))
	i := slices.IndexFunc(l.Locks, func(x Lock) bool {
		return slices.ContainsFunc(x.Sites, func(s Site) bool {
			return strings.HasSuffix(s.Func, ".busyUse") || strings.HasSuffix(s.Func, ".busySemaphore.Lock")
		})
	})
	testenv.StopIf(t, i < 0, "the lock is not found: %+v", l.Locks)
	t.Logf("%s: waits %d, at least: %v, longest %v; the block profile has %d", l.Locks[i].Name, l.Locks[i].Waits, l.Locks[i].AtLeast, l.Locks[i].Longest, n)
	return l.Locks[i], n
}

// The number of waits for a lock is that of the runtime's block profile where goroutines wait for that lock only and do not hand it over.
// Otherwise it is a lower limit.
func TestMeasureLockWaits(t *testing.T) {
	measure.AtMost(t, "a channel as lock: waits, off the block profile, or above it if there are said to be more", "%", 5, func() float64 {
		sem := make(busySemaphore, 1)
		x, n := countedWaits(t, 6, func() { busyUse(sem, 50*time.Microsecond); busyFor(20 * time.Microsecond) })
		off := 100 * (float64(x.Waits)/float64(n) - 1)
		if x.AtLeast {
			t.Logf("at least %d of %d waits", x.Waits, n)
			return max(0, off)
		}
		return math.Abs(off)
	})
	for name, sleep := range map[string]time.Duration{"a Mutex": 0, "a Mutex, and sleeps": 100 * time.Microsecond} {
		measure.AtMost(t, name+": waits above the block profile", "%", 5, func() float64 {
			var mu sync.Mutex
			x, n := countedWaits(t, 6, func() { busyUse(&mu, 100*time.Microsecond); time.Sleep(sleep) })
			return 100 * max(0, float64(x.Waits)/float64(n)-1)
		})
	}
}
