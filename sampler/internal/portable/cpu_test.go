package portable

import (
	"runtime"
	"testing"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// TestCPUOfLateLooks has a goroutine that runs all the time and gets a core for a part of it. Looks are late at
// times. What it has used must be in its samples, and what no goroutine has used in the row of the scheduler.
func TestCPUOfLateLooks(t *testing.T) {
	if used, known := processTime(); runtime.GOOS == "linux" && (!known || used <= 0) {
		t.Errorf("the process has used %v, known: %v", used, known)
	}
	for i, share := range []float64{0.1, 0.4, 0.6, 0.9, 0.5} {
		runs := i < 4
		c, r := cpu{known: true}, newRecorder()
		c.rows.Begin(0)
		var at, used, paid time.Duration
		for i := range 1000 {
			gap := 5 * time.Millisecond
			if i%10 == 0 {
				gap = 200 * time.Millisecond
			}
			at += gap
			used += time.Duration(share * float64(gap))
			c.pool += time.Duration(share * float64(gap))
			if runs && c.pay(gap) {
				paid += gap
			}
			c.settle(r, at, 2*gap, i == 999)
		}
		if runs && paid < used*85/100 || paid > used+200*time.Millisecond {
			t.Errorf("on a core for %v of the time: its samples on the CPU are %v, it has used %v", share, paid, used)
		}
		sum, last := paid, map[uint64]time.Duration{}
		for _, s := range r.process {
			if s.Status&tachyon.OnCPU != 0 {
				sum += s.Time - last[s.Goroutine] // a sample without CPU time comes before each
			}
			last[s.Goroutine] = s.Time
		}
		if sum > used+200*time.Millisecond || sum < used-200*time.Millisecond {
			t.Errorf("on a core for %v of the time: samples and rows on the CPU are %v, it has used %v", share, sum, used)
		}
	}
}
