//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"time"
)

// budget keeps what sampling costs within what it may cost. Goroutines that run
// are sampled at every tick in any case; what is left over pays for visits to
// those that do not. Times are ns of CPU.
type budget struct {
	percent float64
	quota   uint64 // visits a tick, 48.16 bits
	total   time.Duration

	at       time.Time
	tickCPU  uint64 // what the counters were at the last reckoning
	answered uint64
	ticks    uint64
	visiting uint64
	handling uint64
	work     int64
	spent    float64 // moving averages over some reckonings
	onVisits float64
	count    float64
}

// interruptCost is what a signal to a running thread costs besides the handler:
// the kernel's way in and out.
const interruptCost = 2000

// measured is the share of the cost that the clocks and counters here show. The rest is
// the scheduler's, which wakes the drain, and the program's own, which finds
// less of its memory in the caches. An idle process that is sampled uses about a
// quarter more CPU time than is reckoned here.
const measured = 0.8

// fewVisits is how many goroutines are visited at each tick in any case. To visit
// them and to write down that they still wait costs some 4 µs, 7 µs with a thousand, and it makes the
// profile of a small program exact: a goroutine that is visited rarely is given
// the time since its last visit for what it does at this one.
const fewVisits = 16

func newBudget(percent float64) *budget {
	return &budget{percent: percent, quota: fewVisits << 16, at: time.Now()}
}

// spend reckons what the time since the last call cost and sets the quota. tick is the
// tick thread's CPU time, pass the drain's last one.
func (b *budget) spend(now time.Time, s *shared, d *drain, tick, pass uint64) {
	elapsed := float64(now.Sub(b.at))
	if tick < b.tickCPU {
		tick = b.tickCPU // the thread is no more
	}
	if b.tickCPU == 0 {
		b.tickCPU = tick
	}
	ticks := float64(s.ticks - b.ticks)
	perCycle := 40e3 / float64(s.tornAfter) // ns
	handling := float64(s.handling-b.handling) * perCycle
	cost := float64(tick-b.tickCPU) + float64(s.answered-b.answered)*interruptCost + handling + float64(pass)
	onVisits := float64(s.visiting-b.visiting) * perCycle
	if work := float64(d.work - b.work); work > 0 {
		// The drain's share by records: all but those of running goroutines.
		onVisits += float64(pass) * max(0, work-float64(s.answered-b.answered)) / work
	}
	b.total += time.Duration(cost)
	b.at, b.tickCPU, b.answered, b.ticks = now, tick, s.answered, s.ticks
	b.visiting, b.handling, b.work = s.visiting, s.handling, d.work
	if elapsed <= 0 || ticks == 0 {
		return
	}
	const keep = 0.9
	b.spent = b.spent*keep + cost/elapsed
	b.onVisits = b.onVisits*keep + onVisits/elapsed
	b.count = b.count*keep + 1
	allowed := b.percent / 100 * float64(runtime.GOMAXPROCS(0)) * measured
	fixed := (b.spent - b.onVisits) / b.count
	variable := b.onVisits / b.count
	factor := 1.2
	if variable > 0 {
		factor = min(factor, max(0.5, (allowed-fixed)/variable))
	}
	all := (s.young.n + s.old.n + s.goroutines - min(s.met, s.goroutines)) << 16
	least := max(all/uint64(10*max(d.cfg.Rate, 1)), min(all, fewVisits<<16)) // everything in ten seconds
	b.quota = min(max(uint64(float64(b.quota)*factor), least), max(all, fewVisits<<16))
}
