package analyze

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
)

// A program of goroutines that end, a pool that grows and is used, and a leak. It counts what it leaks.
func TestLeaksOfProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leaky.tach")
	session, err := profiler.Open(profiler.Output(path), profiler.Budget(100))
	if err != nil {
		t.Fatal(err)
	}
	never, jobs, done := make(chan int), make(chan int), make(chan struct{})
	var group sync.WaitGroup
	leaked := 0
	for begin := time.Now(); time.Since(begin) < 4*time.Second; {
		go leakyReply(never)
		leaked++
		group.Go(func() { busyWorker(jobs, done) })
		for range 20 {
			group.Go(func() { time.Sleep(time.Millisecond) })
		}
		for i := range leaked { // every worker has a job
			jobs <- i
		}
		time.Sleep(50 * time.Millisecond)
	}
	l := leaksOf(t, session, path, func() { close(never); close(done); group.Wait() })
	const function = "github.com/gotach/profiler/internal/analyze.leakyReply"
	g := find(l.Groups, function)
	if g == nil {
		t.Fatal("the leak is in no group")
	}
	if !g.Suspect || g.RanAgain != 0 || g.Reason != "chan receive" || g.CreatedBy != "github.com/gotach/profiler/internal/analyze.TestLeaksOfProgram" {
		t.Errorf("the leak is %+v", g)
	}
	if g.End < leaked-2 || g.End > leaked {
		t.Errorf("%d goroutines leak, %d did", g.End, leaked)
	}
	for _, g := range l.Groups {
		if g.Suspect && g.Function != function {
			t.Errorf("%s is a suspect: %+v", g.Function, g)
		}
	}
}

func leakyReply(c chan int) { <-c }

func busyWorker(jobs chan int, done chan struct{}) {
	for {
		select {
		case <-jobs:
			for begin := time.Now(); time.Since(begin) < 200*time.Microsecond; {
			}
			time.Sleep(2 * time.Millisecond)
		case <-done:
			return
		}
	}
}

// A leak of 50 a minute among 5,000 goroutines a second that end is the one suspect, and the first screen of a report
// names it. It takes a minute: GOTACH_LEAK_SECONDS is how long; without it, or with -short, nothing is checked.
func TestSlowLeakOfProgram(t *testing.T) {
	seconds, _ := strconv.Atoi(os.Getenv("GOTACH_LEAK_SECONDS"))
	if seconds == 0 {
		return
	}
	path := filepath.Join(t.TempDir(), "leaky.tach")
	session, err := profiler.Open(profiler.Output(path))
	if err != nil {
		t.Fatal(err)
	}
	never, jobs, done := make(chan int), make(chan int), make(chan struct{})
	var group sync.WaitGroup
	leaked, ended := 0, 0
	begin := time.Now()
	for tick := 0; time.Since(begin) < time.Duration(seconds)*time.Second; tick++ {
		if tick%240 == 120 {
			go leakyReply(never)
			leaked++
			group.Go(func() { busyWorker(jobs, done) }) // a pool that grows as fast and is used
		}
		if tick%40 == 0 {
			for i := range leaked {
				jobs <- i
			}
		}
		for ; ended < int(5000*time.Since(begin).Seconds()); ended++ {
			group.Go(func() { time.Sleep(2 * time.Millisecond) })
		}
		time.Sleep(time.Until(begin.Add(time.Duration(tick+1) * 5 * time.Millisecond)))
	}
	l := leaksOf(t, session, path, func() { close(never); close(done); group.Wait() })
	t.Logf("%d leaked and %d ended in %v", leaked, ended, time.Since(begin))
	suspects := 0
	for _, g := range l.Groups {
		if !g.Suspect {
			continue
		}
		suspects++
		if g.Function != "github.com/gotach/profiler/internal/analyze.leakyReply" || g.End < leaked-1 || g.End > leaked {
			t.Errorf("a suspect is %+v", g)
		}
	}
	if suspects != 1 {
		t.Errorf("%d suspects", suspects)
	}
}

// leaksOf stops a session, lets its goroutines end, and returns the leaks in its file. The first screen of a report must
// name the one of leakyReply.
func leaksOf(t *testing.T, session *profiler.Session, path string, end func()) *Leaks {
	t.Helper()
	err := session.Stop()
	end()
	if err != nil {
		t.Fatal(err)
	}
	f, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := FindLeaks(samplesOf(t, stream.Options{}, f))
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Groups {
		g := l.Groups[i]
		g.Alive = nil // long
		t.Logf("%+v", g)
	}
	onFirstScreen(t, path, `LEAK\? \[chan receive\] \S*Reply  leaks_\S*:\d+$`)
	return l
}
