//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"time"
)

// budget keeps the cost of sampling within Config.Budget. Running goroutines are sampled at
// every tick, whatever that costs. The rest of the budget is for visits to goroutines that do
// not run. Costs are CPU time in ns.
type budget struct {
	percent float64
	quota   uint64 // visits a tick, 48.16 bits
	total   time.Duration

	at       time.Time
	tickCPU  uint64 // the counters at the last call of spend
	answered uint64
	ticks    uint64
	visiting uint64
	handling uint64
	work     int64
	spent    float64 // moving averages over some calls
	onVisits float64
	count    float64
}

// interruptCost is the kernel's cost of a signal to a running thread, in ns: entering and
// leaving the handler.
const interruptCost = 2000

// measured is the share of the cost that the clocks and counters here show. The rest is the
// scheduler's, which wakes the drain, and the program's, which finds less of its memory in
// the caches. An idle process that is sampled uses about a quarter more CPU time than is
// counted here.
const measured = 0.8

// fewVisits is the number of visits at each tick that the budget does not limit. These visits
// and their records cost some 4 µs, or 7 µs among a thousand goroutines. They make the profile
// of a small program exact. Rare visits are less exact, because each sample stands for all the
// time since the goroutine's last visit.
const fewVisits = 16

func newBudget(percent float64) *budget {
	return &budget{percent: percent, quota: fewVisits << 16, at: time.Now()}
}

// spend adds up the cost since the last call and sets the quota. tick is the CPU time of the
// tick thread so far, pass that of the drain's last pass, both in ns.
func (b *budget) spend(now time.Time, s *shared, d *drain, tick, pass uint64) {
	elapsed := float64(now.Sub(b.at))
	if tick < b.tickCPU {
		tick = b.tickCPU // the thread has ended
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
		// The drain's cost of visits, by its share of records: all but those of running goroutines.
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
	all := (s.active.n + s.still.n + s.goroutines - min(s.met, s.goroutines)) << 16
	least := max(all/uint64(10*max(d.cfg.Rate, 1)), min(all, fewVisits<<16)) // every goroutine within ten seconds
	b.quota = min(max(uint64(float64(b.quota)*factor), least), max(all, fewVisits<<16))
}
