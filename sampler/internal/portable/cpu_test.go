package portable

import (
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestCPU checks that the samples on the CPU add up to what the process used.
func TestCPU(t *testing.T) {
	if _, ok := processTime(); !ok {
		t.Log("this system does not say what a process uses")
		return
	}
	most, _ := processTime()
	s, r := New(), newRecorder()
	if err := s.Start(source.Config{Rate: 200, Budget: 5, Start: time.Now()}, r); err != nil {
		t.Fatal(err)
	}
	least, _ := processTime()
	// Three times as many as there can be cores on a busy machine.
	var all sync.WaitGroup
	for range 6 {
		all.Add(1)
		go func() {
			defer all.Done()
			x := 1
			for until := time.Now().Add(2 * time.Second); time.Now().Before(until); {
				for i := range 1000 {
					x += i * x
				}
			}
		}()
	}
	all.Wait()
	end, _ := processTime()
	s.Stop()
	after, _ := processTime()
	least, most = end-least, after-most
	sum, goroutines := time.Duration(0), time.Duration(0)
	last := map[uint64]time.Duration{}
	for _, s := range append(r.samples, r.process...) {
		weight := s.Gap
		if before, ok := last[s.Goroutine]; ok {
			weight = s.Time - before
		}
		last[s.Goroutine] = s.Time
		if s.Status&tachyon.OnCPU != 0 {
			sum += weight
			if !s.Process {
				goroutines += weight
			}
		}
	}
	t.Logf("%v on the CPU, %v of it goroutines; the process used %v to %v; %+v", sum, goroutines, least, most, s.Stats())
	// A look can be late on a busy machine, and its last sample is paid as a whole.
	slack := most/50 + 3*longest(r.samples)
	if sum < least-slack || sum > most+slack {
		t.Errorf("the samples on the CPU add up to %v, the process used %v to %v", sum, least, most)
	}
	if goroutines < sum*7/10 {
		t.Errorf("of %v on the CPU, goroutines have only %v", sum, goroutines)
	}
}

// TestCPUOfLateLooks has a goroutine that runs all the time and gets a core for a part of it. Looks are late at
// times. What it has used must be in its samples.
func TestCPUOfLateLooks(t *testing.T) {
	for _, share := range []float64{0.1, 0.4, 0.6, 0.9} {
		c, r := cpu{known: true}, newRecorder()
		var at, used, paid time.Duration
		for i := range 1000 {
			gap := 5 * time.Millisecond
			if i%10 == 0 {
				gap = 200 * time.Millisecond
			}
			at += gap
			used += time.Duration(share * float64(gap))
			c.pool += time.Duration(share * float64(gap))
			if c.pay(gap) {
				paid += gap
			}
			c.settle(r, at, 2*gap, false)
		}
		t.Logf("%v of %v", paid, used)
		if paid < used*85/100 || paid > used+200*time.Millisecond {
			t.Errorf("on a core for %v of the time: its samples on the CPU are %v, it has used %v", share, paid, used)
		}
	}
}

// longest returns the longest time between two looks.
func longest(samples []source.Sample) (d time.Duration) {
	last := samples[0].Time
	for _, s := range samples {
		d = max(d, s.Time-last)
		last = s.Time
	}
	return d
}
