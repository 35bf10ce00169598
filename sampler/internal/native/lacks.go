//go:build linux && (amd64 || arm64)

package native

import (
	"math"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
)

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
	if g.system.ofRuntime() {
		return // census does not count it
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
	case g.seen && !g.system.ofRuntime():
		k.living--
		k.last -= g.last
	}
}

// lack returns how much time of goroutines no sample stands for: what the integral of their number
// has more than the samples. If that is within the error of the integral, it is at most what looks
// have found; if the integral is not known, it is what looks have found. d.end says that there are
// no more samples to come. It never returns less than before. The number of goroutines that are
// there all the time is exact, so the error is a thousandth of the rest.
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
		// Right after many goroutines have begun, not all are known. What is really missing stays
		// so.
		k.missing, missing = missing, min(k.missing, missing)
	}
	if missing < (k.area-time.Duration(k.least*float64(d.now-k.begin)))/1000 {
		missing = min(missing, d.notSeen)
	}
	k.found = max(k.found, missing)
	return k.found
}

// unvisited returns for how long the goroutines have lived that looks have found and no visit has
// recorded yet.
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
