//go:build !race && go1.26

package analyze

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
)

// A worker has a few goroutines that do jobs, one after the other. It keeps a log of what was planted.
type worker struct {
	extra   time.Duration // what main computes in 50 ms, in addition
	wait    time.Duration // what each job waits, in addition
	retried time.Duration // by the log: all of these waits
}

var computed uint64

//go:noinline
func usualWork(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		for i := range uint64(20_000) {
			computed = computed*6364136223846793005 + i
		}
	}
}

//go:noinline
func plantedWork(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		for i := range uint64(20_000) {
			computed = computed*6364136223846793005 ^ i
		}
	}
}

//go:noinline
func plantedRetry(d time.Duration) { time.Sleep(d) }

//go:noinline
func usualQuery() { time.Sleep(8 * time.Millisecond) }

// run profiles the worker for some time.
func (w *worker) run(t *testing.T, path string, length time.Duration) {
	t.Helper()
	session := openNative(t, path)
	var all sync.WaitGroup
	var mu sync.Mutex
	begin := time.Now()
	for range 4 {
		all.Go(func() {
			for time.Since(begin) < length {
				usualQuery()
				if w.wait > 0 {
					from := time.Now()
					plantedRetry(w.wait)
					mu.Lock()
					w.retried += time.Since(from)
					mu.Unlock()
				}
			}
		})
	}
	for time.Since(begin) < length {
		usualWork(4 * time.Millisecond)
		if w.extra > 0 {
			plantedWork(w.extra)
		}
		time.Sleep(45 * time.Millisecond)
	}
	all.Wait()
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
}

// diffPrograms compares the profiles of two runs.
func diffPrograms(t *testing.T, a, b string) *Diff {
	t.Helper()
	var sides [2]*Samples
	for i, path := range []string{a, b} {
		f, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		sides[i] = samplesOf(t, stream.Options{}, f)
	}
	return diff(t, sides[0], sides[1], DiffOptions{})
}

// What a program does more than in the run before is found, and the report's first screen has it: 2 % of a core, and
// 5 ms in each job.
func TestDiffOfProgram(t *testing.T) {
	const length = 3 * time.Second
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.tach"), filepath.Join(dir, "after.tach")
	w := worker{extra: time.Millisecond, wait: 5 * time.Millisecond}
	(&worker{}).run(t, before, length)
	w.run(t, after, length)
	d := diffPrograms(t, before, after)
	machine := 0.0
	rows := map[string]DiffRow{}
	for i, r := range d.Rows {
		if i < 8 {
			t.Logf("%+v", r)
		}
		if rows[r.Name] = r; r.Name == rowNoCore || r.Name == rowRunnable {
			machine += math.Abs(r.Delta)
		}
	}
	const pkg = "github.com/gotach/profiler/internal/analyze."
	work, retry := rows[pkg+"plantedWork"], rows["[sleep] "+pkg+"plantedRetry"]
	t.Logf("the machine changed %.3f; %+v", machine, work)
	// If the machine was so busy that it alone could be the reason, the row does not count as different; see judge.
	if work.A != 0 || !work.Significant && machine*machineShare < 0.01 {
		t.Errorf("the 2 %% are %+v; the machine changed %.3f", work, machine)
	}
	if want := w.retried.Seconds() / d.Length[1].Seconds(); !retry.Significant || retry.A != 0 || math.Abs(retry.Delta-want) > want/10+machine {
		t.Errorf("the wait is %+v, the log says %.3f more; the machine changed %.3f", retry, want, machine)
	}
	onFirstScreen(t, after, `\S*plantedWork  diff\S*:\d+$`, `\[sleep\] \S*plantedRetry  diff\S*:\d+$`)
}

// Two runs of one program do not differ. GOTACH_AA is the number of repetitions, of which one in 20 may differ. Without
// it nothing is checked: one repetition can differ by chance.
func TestDiffAAOfProgram(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("GOTACH_AA"))
	dir, wrong := t.TempDir(), 0
	for i := range n {
		a, b := filepath.Join(dir, "a.tach"), filepath.Join(dir, "b.tach")
		(&worker{}).run(t, a, 3*time.Second)
		(&worker{}).run(t, b, 3*time.Second)
		if names := significant(diffPrograms(t, a, b)); len(names) > 0 {
			wrong++
			t.Logf("%d: %q", i, names)
		}
	}
	t.Logf("differences in %d of %d repetitions", wrong, n)
	if wrong > (n+19)/20 {
		t.Errorf("differences in %d of %d repetitions", wrong, n)
	}
}
