//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// sleeper sleeps at one place, again and again, and counts how often.
//
//go:noinline
func sleeper(stop *atomic.Bool, times *atomic.Int64) {
	for ; !stop.Load(); times.Add(1) {
		time.Sleep(5 * time.Millisecond)
	}
}

// TestMoved has goroutines that wait again and again at one place, and others that wait for the whole session. Samples
// have Moved for new waits of the first ones, at most once for each, and never for the others. The integral of the
// number of goroutines is what so many can have, and samples and what was not seen add up to it.
func TestMoved(t *testing.T) {
	const stay, own = 50, 30 // own: at most, of the profiler, with those of its checks
	defer park(stay)()
	var times, moved, parked atomic.Int64
	var sum time.Duration
	known := map[uint64]bool{}
	each := func(s *taken) {
		if !s.system && s.goroutine < tachyon.FirstPseudo {
			sum += s.weight
		}
		again := s.status&tachyon.Moved != 0
		testenv.FailIf(t, again && (!known[s.goroutine] || s.status&(tachyon.OnCPU|tachyon.HasGIL|tachyon.Unknown) != 0), "a sample with %v has the status %b", s.stack, s.status)
		known[s.goroutine] = true
		switch {
		case strings.Contains(s.stack[len(s.stack)-1].Func, ".park."):
			parked.Add(1)
			testenv.FailIf(t, again, "a goroutine that is parked for the whole session has moved: %v", s.stack)
		case again && slices.Contains(names(s.stack), here+"sleeper"):
			moved.Add(1)
		}
	}
	before, begun := runtime.NumGoroutine(), time.Now()
	r, stats := watch(t, source.Config{Budget: 50, WaitFrames: true}, each, func() {
		var all sync.WaitGroup
		var stop atomic.Bool
		for range 5 {
			all.Go(func() { sleeper(&stop, &times) })
		}
		testenv.Await(func() bool { return moved.Load() >= 20 && parked.Load() >= stay })
		stop.Store(true)
		all.Wait()
	})
	testenv.Within(t, "samples that begin a new sleep", moved.Load(), 20, times.Load())
	testenv.Within(t, "samples of parked goroutines", parked.Load(), stay, math.MaxInt64)
	k := &r.lacks
	testenv.Within(t, "the integral", k.area, stay*(k.next-notSeenEvery-k.begin), time.Since(begun)*time.Duration(before+5+own))
	testenv.Within(t, "samples and what was not seen", sum+k.owned+stats.NotSeen, k.area-k.area/1000, math.MaxInt64)
}

// TestUnmoved checks what a visit records of a goroutine that has moved: until when looks found it where it was,
// unless the latest look found already that it had moved.
func TestUnmoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := startFakes(t, rapid.Uint64Range(1, 40).Draw(t, "goroutines"), rapid.Uint64Range(cost.FewVisits, 20).Draw(t, "quota"))
		f.add(40)
		s := f.s
		// tick returns the time that a recSame has for the first goroutine, 0 if there is none, and whether its
		// stack is recorded.
		tick := func() (until uint64, walked bool) {
			f.records(func(kind uint64, w uintptr) {
				switch {
				case kind == recSame && mem.Load64(w+8) == 0:
					until = mem.Load64(w + 16)
				case kind == recStack && mem.Load64(w+headG*8) == uint64(f.g(0)):
					walked = true
				}
			})
			return until, walked
		}
		for range 60 {
			tick()
		}
		for range rapid.IntRange(1, 10).Draw(t, "still for") {
			until, walked := tick()
			testenv.Prints(t, "until when it stayed, and a walk, although it has not moved", "0 false", until, walked)
		}
		looked := mem.Load64(s.entry(0) + entryLooked*8)
		f.move(0)
		for range 100 {
			until, walked := tick()
			if !walked {
				testenv.Same(t, "it stayed until a time, without a stack", until, 0)
				looked = max(looked, mem.Load64(s.entry(0)+entryLooked*8))
				continue
			}
			testenv.Same(t, "until when the visit says that it stayed", until, looked)
			f.move(0)
			until, walked = tick()
			testenv.Prints(t, "until when it stayed, and a walk, right after a visit", "0 true", until, walked)
			return
		}
		t.Fatal("no visit has found that it moved")
	})
}

// move lets a waiting goroutine run and wait again.
func (f *fakes) move(i uint64) {
	seq := f.g(i) + f.s.Off.GTrackingSeq
	mem.Store32(seq&^3, mem.Load32(seq&^3)+1<<(8*(seq&3)))
	mem.Store64(f.g(i)+f.s.Off.GWaitSince, 0)
}

// TestMovers checks that goroutines that move are visited at every tick, beside many that do not move,
// that these are visited too, and that a tick knows to which of them something has happened.
func TestMovers(t *testing.T) {
	const goroutines, movers, visits = 640, 10, 20
	f := startFakes(t, goroutines, visits)
	const input = 5 // the reason of one that waits for input: all others wake up for a timer
	f.s.waits.Poll = 1 << input
	reason := f.g(goroutines/movers) + f.s.Off.GWaitReason
	mem.Store32(reason&^3, input<<(8*(reason&3)))
	const usual = 300 // ticks until it is known which goroutines move
	others := map[uint64]bool{}
	for tick := range 2 * usual {
		events := uint64(1)
		for i := range uint64(movers) {
			f.move(i * goroutines / movers)
			if pc := f.g(i*goroutines/movers) + f.s.Off.GSchedPC; tick%2 == 0 && i%2 == 0 {
				mem.Store64(pc, mem.Load64(pc)^4096) // it waits at another place than before
				events++
			}
		}
		mem.Store32(f.g(3*goroutines/movers)+f.s.Off.GStatus, []uint32{goruntime.GWaiting, goruntime.GRunnable}[tick%2]) // that it has been woken is nothing
		f.s.events = 0
		told := f.tick(t)
		testenv.StopIf(t, tick >= usual && f.s.events != events, "tick %d: something has happened to %d goroutines, not %d", tick, f.s.events, events)
		for i := range uint64(goroutines) {
			goid := mem.Load64(f.g(i) + f.s.Off.GID)
			_, visited := told[goid]
			if moves := i%(goroutines/movers) == 0; !moves && visited {
				others[goid] = true
			} else if moves && !visited && tick >= usual {
				t.Fatalf("tick %d does not visit goroutine %d, which moves", tick, goid)
			}
		}
		f.check(t)
	}
	testenv.Same(t, "visited ones that do not move", len(others), goroutines-movers)
}

// TestMoversInTurn has more goroutines that move between two ticks than a tick may visit. Each is visited in its turn.
func TestMoversInTurn(t *testing.T) {
	const movers, visits = 100, 16
	f := startFakes(t, movers, visits)
	last := map[uint64]int{}
	for tick := range 400 {
		for i := range uint64(movers) {
			f.move(i)
		}
		f.s.wanted = 0
		told := f.tick(t)
		for goid := range told {
			last[goid] = tick
		}
		if tick < 100 {
			continue // until it is known which goroutines move
		}
		testenv.Same(t, "visits of a tick", len(told), visits)
		testenv.Within(t, "goroutines that move, by what a tick found", f.s.wanted, movers*9/10, movers*11/10)
		for goid := range uint64(movers) {
			testenv.Within(t, "ticks since a goroutine was last visited", tick-last[goid+1], 0, movers/visits+1)
		}
		f.check(t)
	}
}

// TestCountStops gives the counter's values at visits, and what is counted from them.
func TestCountStops(t *testing.T) {
	type visit struct {
		ms   int
		seq  uint8
		want source.Stops
	}
	for name, visits := range map[string][]visit{
		"the first visit is where counting begins": {{0, 77, source.Stops{}}, {4, 80, source.Stops{N: 3}}, {8, 80, source.Stops{}}},
		"past 255":                          {{0, 250, source.Stops{}}, {4, 4, source.Stops{N: 10}}},
		"too many to know":                  {{0, 10, source.Stops{}}, {4, 10 + mostStops, source.Stops{N: mostStops, AtLeast: true}}},
		"just not":                          {{0, 10, source.Stops{}}, {4, 10 + mostStops - 1, source.Stops{N: mostStops - 1}}},
		"after a long time":                 {{0, 10, source.Stops{}}, {400, 35, source.Stops{N: 25, AtLeast: true}}, {404, 36, source.Stops{N: 1}}},
		"few after a long time":             {{0, 10, source.Stops{}}, {400, 12, source.Stops{N: 2}}},
		"at the pace of the last one":       {{0, 0, source.Stops{}}, {4, 100, source.Stops{N: 100}}, {16, 110, source.Stops{N: 10, AtLeast: true}}},
		"after a long time at a known pace": {{0, 0, source.Stops{}}, {10, 10, source.Stops{N: 10}}, {110, 115, source.Stops{N: 105}}, {210, 255, source.Stops{N: 140}}, {310, 150, source.Stops{N: 151}}},
		"none":                              {{0, 3, source.Stops{}}, {5000, 3, source.Stops{}}},
	} {
		var g stops
		for _, v := range visits {
			r := make(record, headWords)
			r[headKind] = goruntime.GWaiting << 32
			r[headCounts] = uint64(v.seq) << 56
			g.count(r, time.Duration(v.ms)*time.Millisecond)
			testenv.Same(t, fmt.Sprintf("%s: after %d ms", name, v.ms), g.untold, v.want)
			g.untold = source.Stops{}
		}
	}
	// A thread's record of its own goroutine may be older than the visit before it.
	var g stops
	for i, v := range []struct{ kind, counts, runs uint64 }{{goruntime.GWaiting << 32, 9 << 56, 0}, {goruntime.GSyscall<<32 | flagTaken<<48, 0, 8}, {goruntime.GWaiting << 32, 11 << 56, 0}} {
		r := make(record, headWords)
		r[headKind], r[headCounts], r[headRuns] = v.kind, v.counts, v.runs
		g.count(r, time.Duration(i)*time.Millisecond)
	}
	testenv.Same(t, "with a record of the goroutine's own thread", g.untold, source.Stops{N: 2})
}

// stopper stops 100 times, then waits until it may go on.
//
//go:noinline
func stopper(rounds chan struct{}) {
	for range rounds {
		for range 100 {
			time.Sleep(time.Microsecond)
		}
	}
}

// TestStops counts the stops of a goroutine that is known to stop 101 times a round: 100 times it sleeps, then it waits for the next round,
// which begins when these are counted. The scheduler may preempt it besides, and the collector to look at its stack.
func TestStops(t *testing.T) {
	var counted, seen atomic.Int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := time.Now()
	watch(t, source.Config{Budget: 50, WaitFrames: true}, func(s *taken) {
		if slices.Contains(names(s.stack), here+"stopper") {
			counted.Add(int64(s.stops.N))
			seen.Add(1)
		}
	}, func() {
		rounds := make(chan struct{})
		go stopper(rounds)
		testenv.Await(func() bool { return seen.Load() > 0 })
		for i := range int64(3) {
			rounds <- struct{}{}
			testenv.Await(func() bool { return counted.Load() >= (i+1)*101 })
		}
		close(rounds)
	})
	runtime.ReadMemStats(&after)
	most := 303 + int64(time.Since(begun)/(10*time.Millisecond)) + 4*int64(after.NumGC-before.NumGC+1)
	testenv.Within(t, "stops", counted.Load(), 303, most)
}
