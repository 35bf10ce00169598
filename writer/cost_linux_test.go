package writer

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of the calling thread.
func threadTime(t testing.TB) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkJournalCost measures how much the journal reduces the writer's throughput. It
// writes files with and without a journal in turns and compares the CPU times of the
// fastest turns, so that other load on the machine has little effect.
func BenchmarkJournalCost(b *testing.B) {
	for b.Loop() {
		journalCost(b)
	}
}

func journalCost(t *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, name := range []string{"big", "interp"} {
		p := newTape(t, name, tachyon.Document)
		const n = 100_000
		var plays [2]*player
		var took [2][]time.Duration
		for i := range plays {
			p.o.NoJournal = i == 0
			w, err := Create(filepath.Join(t.TempDir(), "x.tach"), p.o)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			w.out.f = new(void) // the disk is not what is measured
			p.intern(w)
			plays[i] = &player{w: w, frames: p.frames}
		}
		for round := range 60 {
			for i, play := range plays {
				begin := threadTime(t)
				if err := play.play(p.at, round*n, n); err != nil {
					t.Fatal(err)
				}
				took[i] = append(took[i], threadTime(t)-begin)
			}
		}
		off, on := slices.Min(took[0]), slices.Min(took[1])
		t.ReportMetric(float64(off)/n, name+"-ns/sample-without")
		t.ReportMetric(float64(on)/n, name+"-ns/sample-with")
		t.ReportMetric(100*(float64(on)/float64(off)-1), name+"-%")
	}
}
