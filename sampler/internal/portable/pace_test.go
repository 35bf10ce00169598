package portable

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// pacing runs a pacer with a simulated clock. A tick takes the time that took returns, and costs
// that on each of procs. pacing returns the waits and the whole cost.
func pacing(rate int, budget float64, procs int, length time.Duration, took func(tick int) time.Duration) (waits []time.Duration, cost time.Duration) {
	now := time.Duration(0)
	p := newPacer(rate, budget, now)
	p.random = rand.New(rand.NewPCG(1, 2)).Float64
	for now < length {
		d := took(len(waits))
		c := d * time.Duration(procs)
		cost += c
		now += d
		w := p.next(now, c, float64(procs))
		now += w
		waits = append(waits, w)
	}
	return waits, cost
}

// TestBudget checks that the cost of ticks is within the budget, and that the budget is used up if
// the rate would cost more.
func TestBudget(t *testing.T) {
	const length = 20 * time.Second
	tests := []struct {
		name   string
		rate   int
		budget float64
		procs  int
		took   func(int) time.Duration
		ticks  [2]int // least and most
	}{
		{"cheap", 1000, 1, 8, func(int) time.Duration { return 5 * time.Microsecond }, [2]int{19_900, 20_100}},
		{"ten goroutines", 1000, 1, 2, func(int) time.Duration { return 100 * time.Microsecond }, [2]int{1850, 2001}},
		{"ten thousand", 1000, 1, 2, func(int) time.Duration { return 114 * time.Millisecond }, [2]int{2, 2}},
		{"all of it", 1000, 100, 2, func(int) time.Duration { return 500 * time.Microsecond }, [2]int{19_900, 20_100}},
		{"cheap, then expensive", 100, 1, 4, func(i int) time.Duration {
			if i < 1000 {
				return 50 * time.Microsecond
			}
			return 10 * time.Millisecond
		}, [2]int{1010, 1016}},
	}
	for _, tt := range tests {
		waits, cost := pacing(tt.rate, tt.budget, tt.procs, length, tt.took)
		testenv.Within(t, tt.name+": ticks", len(waits), tt.ticks[0], tt.ticks[1])
		last := tt.took(len(waits)-1) * time.Duration(tt.procs)
		allowed := time.Duration(float64(length) * float64(tt.procs) * tt.budget / 100)
		testenv.Within(t, tt.name+": cost", cost, 0, allowed+last)
	}
}

// TestPhases samples a program with phases in which ticks have different costs. Each phase must
// get its share of the time.
func TestPhases(t *testing.T) {
	p := newPacer(1000, 1, 0)
	p.random = rand.New(rand.NewPCG(1, 2)).Float64
	const length = 100 * time.Second
	var seen [5]time.Duration // phases of 20 ms, of which the first two are dear
	last := time.Duration(0)
	for now := time.Duration(0); now < length; {
		in := now / (20 * time.Millisecond) % 5
		seen[in] += now - last
		last = now
		cost := 200 * time.Microsecond
		if in < 2 {
			cost *= 4
		}
		now += cost / 2
		now += p.next(now, cost, 2)
	}
	for i := range seen {
		testenv.Within(t, fmt.Sprint("share of phase ", i), seen[i].Seconds()/length.Seconds(), 0.19, 0.21)
	}
}

// TestCredit checks that a long time without cost does not allow an expensive time after it.
func TestCredit(t *testing.T) {
	const dear, share = 20 * time.Millisecond, 0.01 * 4
	p := newPacer(1000, 1, 0)
	now := time.Hour // without cost so far
	begin := now
	p.next(now, 0, 4)
	cost := time.Duration(0)
	for now < begin+20*time.Second {
		now += p.next(now, dear, 4)
		cost += dear
	}
	allowed := time.Duration(float64(now-begin+window) * share)
	testenv.Within(t, "cost", cost, allowed-3*dear, allowed+dear)
}

// TestJitter checks that periods differ, by 6 % at most, and keep the rate.
func TestJitter(t *testing.T) {
	waits, _ := pacing(1000, 100, 1, 10*time.Second, func(int) time.Duration { return 0 })
	testenv.Within(t, "the shortest period", slices.Min(waits), 940*time.Microsecond, 950*time.Microsecond)
	testenv.Within(t, "the longest period", slices.Max(waits), 1050*time.Microsecond, 1060*time.Microsecond)
	testenv.Within(t, "periods in ten seconds", len(waits), 9970, 10030)
}

// TestSuspended checks that a tick during which the machine was suspended does not stop sampling
// for long.
func TestSuspended(t *testing.T) {
	testenv.Same(t, "after a tick of an hour the next one comes after", newPacer(1000, 1, 0).next(time.Hour, time.Hour, 2), time.Minute)
}

// TestLate checks that late ticks are not followed by a burst of ticks.
func TestLate(t *testing.T) {
	p := newPacer(1000, 100, 0)
	p.random = func() float64 { return 0.5 }
	testenv.Same(t, "wait after the late tick", p.next(50*time.Millisecond, 0, 1), 0)
	for i := range 3 {
		testenv.Same(t, fmt.Sprintf("wait %d after the late tick", i), p.next(50*time.Millisecond+time.Duration(i)*time.Millisecond, 0, 1), time.Millisecond)
	}
}

// TestCPUOfLateLooks has a goroutine that runs all the time and gets a core for a part of it. Looks are late at
// times. What it has used must be in its samples, and what no goroutine has used in the row of the scheduler.
func TestCPUOfLateLooks(t *testing.T) {
	used, known := processTime()
	testenv.Same(t, "the process's time is known", known && used > 0, known || runtime.GOOS == "linux")
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
		if runs {
			testenv.Within(t, fmt.Sprint(share, ": samples on the CPU"), paid, used*85/100, used+200*time.Millisecond)
		}
		sum, last := paid, map[uint64]time.Duration{}
		for _, s := range r.process {
			if s.Status&tachyon.OnCPU != 0 {
				sum += s.Time - last[s.Goroutine] // a sample without CPU time comes before each
			}
			last[s.Goroutine] = s.Time
		}
		testenv.Within(t, fmt.Sprint(share, ": samples and rows on the CPU"), sum, used-200*time.Millisecond, used+200*time.Millisecond)
	}
}
