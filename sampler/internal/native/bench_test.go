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

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
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

// tickCosts measures ticks, on one thread. walk is the time of a tick that
// walks all goroutines, rest that of one that records them without a walk because they have not run, tick that of a usual one
// while they do not run, profile that of a goroutine profile.
func tickCosts(t testing.TB, n int) (walk, rest, tick, profile time.Duration) {
	defer park(n)()
	runtime.GC() // stamps the goroutines that wait
	s := New()
	testenv.OK(t, s.Start(source.Config{Rate: 1, Budget: 100, Start: time.Now()}, discard{newRecorder()}))
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
	sh.visitLimit = ^uint64(0)
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
	all := func() { sh.sweeps++ }
	walk = median(15, func() { s.drain.roster.begin(monotonicNow()); all() }, onTick)
	for range n/5000 + 2 {
		onTick() // the ring holds 10,000 walks or so
	}
	rest = median(count, all, onTick)
	onTick()
	tick = median(count, func() {}, onTick)
	records := make([]runtime.StackRecord, n+100)
	profile = median(max(9, min(200, count)), func() {}, func() { runtime.GoroutineProfile(records) })
	return walk, rest, tick, profile
}

// BenchmarkTick measures the work of ticks. For comparison it measures a goroutine profile of the same program.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{10, 1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				walk, rest, tick, profile := tickCosts(b, n)
				b.ReportMetric(float64(walk), "walk-ns")
				b.ReportMetric(float64(rest), "rest-ns")
				b.ReportMetric(float64(tick), "tick-ns")
				b.ReportMetric(float64(profile), "goroutineprofile-ns")
				b.ReportMetric(float64(profile)/float64(tick), "profiles/tick")
			}
		})
	}
}

// BenchmarkStart measures the time of Start, including the self-check.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s := New()
		testenv.OK(b, s.Start(source.Config{Rate: 1000, Budget: 1, Start: time.Now()}, discard{newRecorder()}))
		b.StopTimer()
		s.Stop()
		b.StartTimer()
	}
}
