package main

/*
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static volatile int over;
static struct timespec spent;

static void *spins(void *arg) {
	volatile int x = 0;
	while (!over) x++;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	usleep(800000); // what a thread used just before its end would not be known
	return 0;
}

static pthread_t spinner;
static void startSpinner(void) { pthread_create(&spinner, 0, spins, 0); }
static long long stopSpinner(void) {
	over = 1;
	pthread_join(spinner, 0);
	return spent.tv_sec * 1000000000LL + spent.tv_nsec;
}
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/sampler/internal/native"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// weights adds up the CPU time of samples.
type weights struct {
	counter
	last                           map[uint64]time.Duration
	all, inC, inGo, threads, wrong time.Duration
}

func (w *weights) Sample(s *source.Sample) {
	weight := s.Gap
	if last, ok := w.last[s.Goroutine]; ok {
		weight = s.Time - last
	}
	w.last[s.Goroutine] = s.Time
	var text string
	for _, id := range s.Stack {
		text += " " + w.frames[id]
	}
	if s.Status&tachyon.OnCPU == 0 {
		return
	}
	w.all += weight
	switch {
	case strings.Contains(text, "main.burnInC"):
		w.inC += weight
		if s.Status&(tachyon.Unknown|tachyon.HasGIL) == 0 {
			w.wrong += weight
		}
	case strings.Contains(text, "main.inGo"):
		w.inGo += weight
	case strings.Contains(text, "[C threads]"):
		w.threads += weight
	}
}

// used returns the CPU time of the process, or of the calling thread.
func used(clock int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// spin calls f until a time, on a thread of its own. It returns that thread's CPU time.
func spin(until time.Time, f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := used(unix.CLOCK_THREAD_CPUTIME_ID)
	for time.Now().Before(until) {
		f()
	}
	return used(unix.CLOCK_THREAD_CPUTIME_ID) - before
}

// cpu compares the CPU time of samples with what C and Go code has used. It prints by how many percent that of the process
// differs, by how many points of it one kind of code, and how many visits of 100 ticks were torn.
func cpu() {
	w := &weights{last: map[uint64]time.Duration{}}
	before := used(unix.CLOCK_PROCESS_CPUTIME_ID)
	s := native.New()
	if err := s.Start(source.Config{Rate: 1000, Budget: 50, WaitFrames: true, Start: time.Now()}, w); err != nil {
		fmt.Println("Start:", err)
		os.Exit(1)
	}
	started := used(unix.CLOCK_PROCESS_CPUTIME_ID)
	C.startSpinner()
	until := time.Now().Add(time.Second)
	inC, inGo := make(chan time.Duration), make(chan time.Duration)
	go func() { inC <- spin(until, burnInC) }()
	go func() { inGo <- spin(until, func() { callGo() }) }()
	c, g := <-inC, <-inGo
	threads := time.Duration(C.stopSpinner())
	least := used(unix.CLOCK_PROCESS_CPUTIME_ID) - started
	s.Stop()
	most := used(unix.CLOCK_PROCESS_CPUTIME_ID) - before
	apart := 0.0
	for _, d := range []time.Duration{w.inC - c, w.inGo - g, w.threads - threads, w.wrong} {
		apart = max(apart, 100*math.Abs(float64(d))/float64(w.all))
	}
	stats := s.Progress()
	fmt.Println(100*float64(max(least-w.all, w.all-most, 0))/float64(most), apart, 100*float64(stats.Torn)/float64(stats.TicksReached))
}

var sum int

//go:noinline
func callGo() { sum += inGo() }
