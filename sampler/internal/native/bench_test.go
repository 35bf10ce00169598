//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/sampler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/source"
)

// park starts n goroutines that wait 15 to 20 frames deep.
func park(n int) (stop func()) {
	ch := make(chan struct{})
	var up, down sync.WaitGroup
	up.Add(n)
	down.Add(n)
	var deep func(d int)
	deep = func(d int) {
		if d == 0 {
			up.Done()
			<-ch
			return
		}
		deep(d - 1)
	}
	for i := range n {
		go func() { deep(15 + i%6); down.Done() }()
	}
	up.Wait()
	time.Sleep(10 * time.Millisecond)
	return func() { close(ch); down.Wait() }
}

type discard struct{ *recorder }

func (discard) Sample(*source.Sample) {}

// tickCosts measures ticks that visit every goroutine, on one thread. walk is the time of a tick that
// walks all goroutines, tick that of one that skips goroutines which have not run, profile that of a
// goroutine profile.
func tickCosts(t testing.TB, n int) (walk, tick, profile time.Duration) {
	defer park(n)()
	runtime.GC() // stamps the goroutines that wait
	s := New()
	if err := s.Start(source.Config{Rate: 1, Budget: 100, Start: time.Now()}, discard{newRecorder()}); err != nil {
		t.Fatal(err)
	}
	sh := s.s
	s.ticker.deleteTimer()
	s.ticker.leave()
	close(s.quit)
	<-s.done
	s.quit, s.done = make(chan struct{}), make(chan struct{})
	close(s.done)
	defer s.Stop()
	s.drain.pass()
	// Call the handler repeatedly on this thread, like GoroutineProfile. It must take this thread
	// for the tick thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := sh.tid
	defer func() { sh.tid = tid }()
	sh.tid = uint64(unix.Gettid())
	readClock(sh)
	sh.quota, sh.visitLimit = 1<<40, ^uint64(0)
	median := func(count int, before, f func()) time.Duration {
		all := make([]time.Duration, count)
		for i := range all {
			before()
			start := time.Now()
			f()
			all[i] = time.Since(start)
		}
		slices.Sort(all)
		return all[count/2]
	}
	onTick := func() {
		mem.StoreRelease(uintptr(unsafe.Pointer(&sh.tail)), sh.head) // as the drain does
		callTick(sh)
	}
	count := max(15, min(2000, 2_000_000/n))
	walk = median(15, func() { s.drain.roster.begin(monotonicNow()) }, onTick)
	for range n/5000 + 2 {
		onTick() // the ring holds 10,000 walks or so
	}
	tick = median(count, func() {}, onTick)
	records := make([]runtime.StackRecord, n+100)
	profile = median(max(9, min(200, count)), func() {}, func() { runtime.GoroutineProfile(records) })
	return walk, tick, profile
}

// BenchmarkTick measures the work of a tick that visits every goroutine. For comparison it measures a goroutine
// profile of the same program.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{10, 1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				walk, spare, profile := tickCosts(b, n)
				b.ReportMetric(float64(walk), "walk-ns")
				b.ReportMetric(float64(spare), "tick-ns")
				b.ReportMetric(float64(profile), "goroutineprofile-ns")
				b.ReportMetric(float64(profile)/float64(spare), "profiles/tick")
			}
		})
	}
}

// BenchmarkStart measures the time of Start, including the self-check.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s := New()
		if err := s.Start(source.Config{Rate: 1000, Budget: 1, Start: time.Now()}, discard{newRecorder()}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Stop()
		b.StartTimer()
	}
}
