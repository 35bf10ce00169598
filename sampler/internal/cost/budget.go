//go:build linux && (amd64 || arm64)

// Package cost is what sampling costs, and what it may: the budget of a session, and the patience of its Start.
// It knows clocks and numbers, no goroutines and no handler.
//
// # Files
//
//   - budget.go says how often to look, and how many goroutines to visit
//   - patience.go says when Start gives up
//   - cpuclock.go reads CPU clocks
package cost

import (
	"math"
	"time"
)

// Budget keeps the cost of sampling within Config.Budget. It sets the mean time between two
// Ticks and the number of visits at each tick. All costs are CPU time in ns.
//
// A session cannot see all that it costs: the kernel interrupts running threads for it, and the
// Go scheduler wakes threads for the drain. So budget adds constants to what it can read. They
// were fitted to measurements from outside (go run ./bench -cost). The CPU time of the whole
// Process is an upper bound.
type Budget struct {
	percent float64
	asked   float64 // ns between two ticks, by the rate asked for
	Total   time.Duration

	last  Clocks
	sums  costs   // each pass counts less as time goes by
	base  float64 // cost of a pass without stacks, ns
	share float64 // of visits in the CPU time of the tick thread
	saved float64 // Budget that the last seconds have left, or less than nothing: what they have overspent, ns

	Period float64       // mean time between two ticks, ns
	Quota  uint64        // Visits a tick, 48.16 bits
	Every  time.Duration // time between two passes of the drain
}

// Clocks has the Clocks and counters that the cost is computed from, since the start of the
// session unless noted.
type Clocks struct {
	At       time.Time
	Procs    int     // GOMAXPROCS
	Process  float64 // CPU time of the process, ns
	Ticker   float64 // CPU time of the tick thread, ns
	Ticks    float64
	Running  float64 // Ps that ran something, summed over the ticks
	Answered float64 // interruptions that were handled
	Handling float64 // ns in the handler on interrupted threads
	Visiting float64 // ns that visits took
	Visits   float64
	News     float64 // of these, visits to new goroutines
	Wanted   float64 // Visits to goroutines that have moved, with those that the quota did not allow
	Records  float64 // stacks that the drain has taken out of the ring

	Pass float64 // CPU time of the last pass alone, ns
	All  uint64  // goroutines to visit, now
}

// costs are the costs of some time.
type costs struct {
	time, passes, ticks, visits, news, wanted float64 // time in ns

	onPasses float64
	onTicks  float64 // Ticks and samples of running goroutines
	onVisits float64
}

const (
	// signalCost is the cost of a signal to a running thread, in ns: the interrupt of the core,
	// entering and leaving the handler.
	signalCost = 2500

	// tickCost is the cost of a tick that is not on the tick thread's clock, in ns: the timer's
	// interrupt, and what the program finds less in the caches.
	tickCost = 1000

	// wakeCost is what it costs to wake the drain while the program is idle, in ns: the runtime
	// wakes several threads, and they look for work. Where all Ps run, one of them runs the drain,
	// and that costs only busyWakeCost.
	wakeCost, busyWakeCost = 100e3, 10e3

	// FewVisits is the number of visits that a tick makes in any case, if the budget allows 100 ticks a second
	// with them. For goroutines that have not moved, these visits and their records cost some 4 µs, or 7 µs
	// among a thousand goroutines. They make the profile of a small program exact. Rare visits are less
	// exact, because each sample stands for all the time since the goroutine's last visit.
	FewVisits = 16

	// FewestVisits remain where the budget is too small for more, or as many as take a sixteenth of
	// a tick's time, or as many as new goroutines and those that move need.
	FewestVisits = 8

	// rareForMovers is the mean time between two ticks to which visits to goroutines that move may lead,
	// in ns. A visit to each of them at each of fewer ticks shows more than a visit to some at more ticks, because the tick itself
	// costs more than these visits. If there are too many for that, they are visited in turns.
	rareForMovers = 15e6

	// horizon is the time after which a cost counts for a third.
	horizon = time.Second / 1

	// What some time has cost too much, the next repayIn costs less, down to half of the budget.
	repayIn = 4 * time.Second

	// scarce is the mean time between two ticks from which on visits are left out, so that the ticks
	// do not get rarer, in ns.
	scarce = 10e6

	// rarestDefault is the longest mean time between two ticks to which a budget of 1 % or more leads, in
	// ns. With fewer than fifty ticks a second, short profiles would have large random errors. Where
	// these ticks cost more than the budget, the session costs more. A smaller budget leads to
	// fewer ticks in proportion, but to one a second at least.
	rarestDefault, rarest = 20e6, 1e9
)

const (
	// PassEvery is the time between two passes of the drain while something runs, so samples of
	// what runs stay in the ring for not much longer.
	PassEvery = 20 * time.Millisecond

	// drainRarest is the longest such time to which a budget leads.
	drainRarest = 50 * time.Millisecond

	// PassIdle is that time while nothing runs. A pass costs more than ten ticks then, because
	// the runtime wakes several threads for it. The tick thread ends the wait if something runs, see
	// wakeDrain.
	PassIdle = time.Second
)

func NewBudget(percent float64, rate int, now Clocks) *Budget {
	asked := 1e9 / float64(max(rate, 1))
	return &Budget{percent: percent, asked: asked, Period: asked, Quota: FewVisits << 16, Every: PassEvery, last: now}
}

// allowed is the budget in ns of CPU time per ns.
func (b *Budget) allowed(procs int) float64 { return b.percent / 100 * float64(procs) }

// Spend adds up the cost since the last call and sets period, quota and every.
func (b *Budget) Spend(now Clocks) {
	d, last := costs{time: float64(now.At.Sub(b.last.At)), passes: 1}, b.last
	b.last = now
	if d.time <= 0 {
		return
	}
	d.ticks, d.visits, d.news, d.wanted = now.Ticks-last.Ticks, now.Visits-last.Visits, now.News-last.News, now.Wanted-last.Wanted
	answered := now.Answered - last.Answered
	ticker, visiting := b.onThread(now.Ticker-last.Ticker, now.Visiting-last.Visiting)

	// What a pass costs beyond the cheapest one goes to its stacks.
	if b.base += (now.Pass - b.base) / 5000; b.base > now.Pass || last.Pass == 0 {
		b.base = now.Pass
	}
	ofRunning, ofVisits := now.Pass-b.base, 0.0
	if records := now.Records - last.Records; records > answered {
		ofVisits = (now.Pass - b.base) * (1 - answered/records)
		ofRunning -= ofVisits
	}
	idle := 1.0
	if d.ticks > 0 {
		idle -= min(1, (now.Running-last.Running)/d.ticks/float64(max(now.Procs, 1)))
	}
	d.onPasses = b.base + busyWakeCost + (wakeCost-busyWakeCost)*idle
	d.onTicks = ticker - visiting + d.ticks*tickCost + answered*signalCost +
		now.Handling - last.Handling + ofRunning
	d.onVisits = visiting + ofVisits
	if all, most := d.onPasses+d.onTicks+d.onVisits, now.Process-last.Process; all > most && most > 0 {
		d.onPasses, d.onTicks, d.onVisits = d.onPasses*most/all, d.onTicks*most/all, d.onVisits*most/all
	}
	all, allowed := d.onPasses+d.onTicks+d.onVisits, b.allowed(now.Procs)
	b.Total += time.Duration(all)
	b.saved = min(max(b.saved+allowed*d.time-all, -allowed*float64(repayIn)/2), allowed*float64(repayIn)/8)
	b.sums.add(d)
	b.set(now)
}

// onThread returns the CPU time of the tick thread, and the part of it that visits took. visiting
// is the time that passed during visits, which is more if the thread lost its core. Then visits get
// their usual share.
func (b *Budget) onThread(cpu, visiting float64) (ticker, visits float64) {
	if cpu <= 0 {
		return 0, 0 // the thread has ended: its clock is 0
	}
	if visiting > cpu*0.9 {
		return cpu, cpu * b.share
	}
	b.share += (visiting/cpu - b.share) / 8
	return cpu, visiting
}

// add adds the costs of a pass.
func (c *costs) add(d costs) {
	keep := math.Exp(-d.time / float64(horizon))
	for _, f := range []struct{ to, by *float64 }{
		{&c.time, &d.time}, {&c.passes, &d.passes}, {&c.ticks, &d.ticks}, {&c.visits, &d.visits}, {&c.news, &d.news}, {&c.wanted, &d.wanted},
		{&c.onPasses, &d.onPasses}, {&c.onTicks, &d.onTicks}, {&c.onVisits, &d.onVisits},
	} {
		*f.to = *f.to*keep + *f.by
	}
}

// set sets period, quota and every. Passes come first, because what they have not taken is lost if the
// program is killed. Then come ticks and visits. If the budget is too small for all visits, these get
// up to a third of it. If it is too small for 100 ticks a second with the least visits, there are fewer
// of these, and only then fewer ticks.
func (b *Budget) set(now Clocks) {
	c := &b.sums
	if c.ticks < 1 {
		return
	}
	allowed := b.allowed(now.Procs)
	perPass, perTick, perVisit, wanted := c.onPasses/c.passes, c.onTicks/c.ticks, 100.0, 0.0
	forPasses := allowed / 4
	b.Every = time.Duration(min(max(perPass/forPasses, float64(PassEvery)), float64(drainRarest)))
	left := max(allowed/20, allowed-c.onPasses/c.time+b.saved/float64(repayIn))
	// What ticks that come later do not use, others may use.
	left /= min(1, max(1.0/4, c.ticks*b.Period/c.time))
	if c.visits >= 1 {
		perVisit = max(1, c.onVisits/c.visits)
		movers := min(c.wanted/c.ticks, (rareForMovers*left-perTick)/perVisit)
		wanted = c.news/c.ticks + max(movers, 0)
	}

	all := float64(now.All)
	fewest := min(all, max(wanted, FewestVisits, perTick/16/perVisit))
	least := max(fewest, min(all, FewVisits))
	more := (all - least) * perVisit // for all other visits at a tick
	period := max(b.asked, (perTick+least*perVisit+more)/left)
	if period > b.asked {
		period = max(b.asked, (perTick+least*perVisit)/(left-min(left/3, more/b.asked)))
	}
	if period > max(b.asked, scarce) {
		period = max(scarce, (perTick+fewest*perVisit)/left)
		least = fewest
	}
	period = min(period, max(b.asked, min(rarest, rarestDefault/min(1, b.percent))))
	// Costs per tick vary from pass to pass.
	b.Period = min(max(b.Period+(period-b.Period)/4, b.Period/2, b.asked), 2*b.Period)

	quota := min(all, max(least, (left*b.Period-perTick)/perVisit))
	// The quota grows slowly, because more visits at a tick cost less each.
	b.Quota = uint64(max(FewestVisits<<16, min(quota*(1<<16), 1.2*float64(b.Quota))))
}
