//go:build linux && (amd64 || arm64)

package native

import (
	"math"
	"runtime"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// The runtime knows how many goroutines there are: all gs that it has ever made, less those that it
// keeps for reuse, less its own. Every tick reads that number. Its integral over time is what the
// weights of all samples must add up to, so what they lack is known (drain.lack). The visits alone
// cannot say that: a goroutine can begin and end where no look comes in time.
//
// The counters are in runtime.sched, a variable without anything to find it by. findSched tries all
// words of the program's variables that can be its first one, the latest goroutine id, and compares the
// result with runtime.NumGoroutine. If there is no such place, sessions go on without the number.

// findSched returns the address of runtime.sched, 0 if it cannot be found.
func findSched(variables []goruntime.Span, l *goruntime.Layout, s *shared, p *cost.Patience) uintptr {
	limit := maxThreads()
	newest := mem.ReadWord(mem.Getg() + l.GID)
	const step, more = 1 << 13, 64
	words := make([]uint64, step+more)
	for _, v := range variables {
		for at := v.Lo; at < v.Hi; at += step * 8 {
			part := words[:min(step+more, int(v.Hi-at)/8)]
			if p.Over("") != nil || mem.ReadBig(at, part) != nil {
				return 0
			}
			for i := 0; i+more <= len(part) && i < step; i++ {
				threads := part[i+int(l.SchedThreads/8)] >> (l.SchedThreads % 8 * 8)
				if id := part[i]; id >= newest && id>>56 == 0 && uint32(threads) == uint32(limit) && isSched(s, at+uintptr(i)*8) {
					return at + uintptr(i)*8
				}
			}
		}
	}
	return 0
}

// isSched compares the number of goroutines with the runtime's answer, before and after some more
// begin, and after these have ended.
func isSched(s *shared, at uintptr) bool {
	s.sched = at
	good := s.right()
	if good {
		_, free := parked(3)
		good = s.right()
		free()
		time.Sleep(100 * time.Microsecond)
		good = good && s.right()
	}
	s.sched = 0
	return good
}

// right reports whether count and runtime.NumGoroutine agree. Goroutines begin and end between the
// two, so it tries often.
//
//go:norace
//go:nocheckptr
func (s *shared) right() bool {
	for range 200 {
		n := runtime.NumGoroutine()
		if c := s.count(); c == uint64(n) && n == runtime.NumGoroutine() {
			return true
		}
	}
	return false
}

// count returns the number of the program's goroutines, as runtime.NumGoroutine does.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) count() uint64 {
	n := int64(mem.Load64(s.allgs + 8))
	for _, field := range [...]uintptr{s.Off.SchedFree, s.Off.SchedFreeBare, s.Off.SchedSystem} {
		n -= int64(int32(mem.Load32(s.sched + field)))
	}
	for i := uint64(0); i < s.nprocs; i++ {
		n -= int64(int32(mem.Load32(uintptr(mem.Load64(s.procs+uintptr(i)*8)) + s.Off.PFree)))
	}
	return uint64(max(n, 0))
}

// census records a tick, and how many goroutines there were up to then.
//
//go:nosplit
//go:norace
//go:nocheckptr
func census(s *shared) {
	stall(s)
	if s.sched != 0 {
		s.countUp()
	}
	if room(s, 3) {
		w := s.words(s.write)
		mem.Store64(w, recTick|3<<8)
		mem.Store64(w+8, s.now)
		mem.Store64(w+16, s.area)
		s.write += 3
	}
}

// countUp adds the time since the last tick to the integral. For the time for which the program did not
// run see stall: until it ran again there were as many goroutines as at the tick before.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) countUp() {
	before, between := s.living, s.now-s.before
	s.living = s.count()
	s.area += (before*s.shift + s.living*(s.stalled-s.shift) + (before+s.living)*(between-s.stalled)/2) / 1000
}

// lacks is the drain's account of the time of goroutines.
type lacks struct {
	weights time.Duration // of all samples of the program's goroutines
	living  int64         // goroutines that have a sample and have not ended yet
	last    time.Duration // sum of the times of their last samples
	own     int64         // goroutines of the profiler
	owned   time.Duration // sum of the time for which these lived
	area    time.Duration // the integral of the number of goroutines, at the last tick; 0: not known
	least   float64       // the least number between two ticks
	begin   time.Duration // time of the first tick
	next    time.Duration // when lack will be called
	missing time.Duration // what the integral has more than the samples, at the latest call
	found   time.Duration // not seen, at the latest call
}

// notSeenEvery is the time between two calls of lack. Each reads all entries of the roster.
const notSeenEvery = time.Second

// sampled adds a sample.
func (k *lacks) sampled(g *goroutine, t, gap time.Duration) {
	if g.system != userGoroutine && g.system != mainGoroutine {
		return // the runtime does not count it
	}
	if g.seen {
		k.weights += t - g.last
		k.last += t - g.last
	} else {
		k.weights += gap
		k.last += t
		k.living++
	}
}

// ticked notes the integral at a tick. before is the time of the tick before, 0 at the first one.
func (k *lacks) ticked(area, now, before time.Duration) {
	if before == 0 {
		k.begin, k.least = now, math.MaxFloat64
	} else if now > before {
		k.least = min(k.least, float64(area-k.area)/float64(now-before))
	}
	k.area = area
}

// ended takes out a goroutine that has ended.
func (k *lacks) ended(g *goroutine) {
	switch {
	case g.skip:
		k.own--
	case g.seen && (g.system == userGoroutine || g.system == mainGoroutine):
		k.living--
		k.last -= g.last
	}
}

// lack returns how much time of goroutines no sample stands for: what the integral of their number has
// more than the samples. If that is within the error of the integral, it is at most what looks have
// found; if the integral is not known, it is what looks have found. d.end says that there are no more
// samples to come. It never returns less than before. The number of goroutines that are there all the
// time is exact, so the error is a thousandth of the rest.
func (d *drain) lack() time.Duration {
	k := &d.lacks
	if k.area == 0 {
		return d.notSeen
	}
	if !d.end && d.now < k.next {
		return k.found
	}
	k.next = d.now + notSeenEvery
	missing := k.area - k.weights
	if own.Counted {
		missing -= k.owned
	}
	if !d.end {
		missing -= time.Duration(k.living)*d.now - k.last + d.unvisited()
		// Right after many goroutines have begun, not all are known. What is really missing stays so.
		k.missing, missing = missing, min(k.missing, missing)
	}
	if missing < (k.area-time.Duration(k.least*float64(d.now-k.begin)))/1000 {
		missing = min(missing, d.notSeen)
	}
	k.found = max(k.found, missing)
	return k.found
}

// unvisited returns for how long the goroutines have lived that looks have found and no visit has recorded
// yet.
//
//go:norace
//go:nocheckptr
func (d *drain) unvisited() (sum time.Duration) {
	for i := range mem.LoadAcquire(uintptr(unsafe.Pointer(&d.s.goroutines))) {
		entry := d.s.entry(i)
		if from := mem.Load64(entry + entryFrom*8); from != 0 && mem.Load64(entry+entryGoid*8) != 0 {
			sum += max(0, d.now-d.time(from))
		}
	}
	return sum
}
