//go:build linux && (amd64 || arm64)

// Package cost is what sampling costs, and what it may: the budget of a session, and the patience
// of its Start. It knows clocks and numbers, no goroutines and no handler.
//
// # Files
//
//   - budget.go says how often to look, and how many goroutines to visit
//   - patience.go says when Start gives up, and reads CPU clocks
package cost

import (
	"math"
	"time"
)

// Budget keeps the cost of sampling within Config.Budget. It sets the mean time between two
// ticks and the number of visits at each tick. All costs are CPU time in ns.
//
// A session cannot see all that it costs: the kernel interrupts running threads for it, and the
// Go scheduler wakes threads for the drain. So Budget adds constants to what it can read. They
// were fitted to measurements from outside (go run ./bench -cost). The CPU time of the whole
// process is an upper bound.
type Budget struct {
	percent float64
	asked   float64 // ns between two ticks, by the rate asked for
	Total   time.Duration

	last  Clocks
	sums  costs   // each pass counts less as time goes by
	share float64 // of visits in the CPU time of the tick thread
	saved float64 // what the last seconds have left of the budget, or less than nothing: what they have overspent, ns

	Period float64       // mean time between two ticks, ns
	Quota  uint64        // visits a tick
	Every  time.Duration // time between two passes of the drain
}

// Clocks has the clocks and counters that the cost is computed from, since the start of the
// session unless noted.
type Clocks struct {
	At       time.Time
	Procs    int     // GOMAXPROCS
	Cores    float64 // that the process may use
	Process  float64 // CPU time of the process, ns
	Ticker   float64 // CPU time of the tick thread, ns
	Ticks    float64
	Running  float64 // Ps that ran something, summed over the ticks
	Answered float64 // interruptions that were handled
	Handling float64 // ns in the handler on interrupted threads
	Visiting float64 // ns that visits took
	Visits   float64
	News     float64 // of these, visits to new goroutines
	Wanted   float64 // visits to goroutines that have moved, with those that the quota did not allow
	Records  float64 // stacks that the drain has taken out of the ring
	Reading  float64 // ns that this took

	Pass float64 // CPU time of the last pass alone, ns
}

// costs are the costs of some time.
type costs struct {
	time, passes, ticks, visits, news, wanted float64 // time in ns

	onPasses float64
	onTicks  float64 // ticks and samples of running goroutines
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
	wakeCost, busyWakeCost = 60e3, 10e3

	// firstCost is what a tick is taken to cost until some have come, in ns.
	firstCost = 50e3

	// FewVisits is the number of visits that a tick may make at least.
	FewVisits = 16

	// rareForMovers is the mean time between two ticks to which visits to goroutines that move may
	// lead, in ns. If there are too many for that, they are visited in turns: how long requests
	// take is then known better than from rarer ticks with more visits (docs/measurements.md).
	rareForMovers = 4e6

	// settleIn is the time in which the period follows the costs, which vary from pass to pass, in
	// ns.
	settleIn = 160e6

	// horizon is the time after which a cost counts for a third.
	horizon = time.Second

	// What some time has cost too much, the next repayIn costs less, down to half of the budget.
	repayIn = 4 * time.Second

	// rarestDefault is the longest mean time between two ticks to which a budget of 1 % or more
	// leads, in ns. With fewer than ten ticks a second nothing could be told from a minute. Where
	// these ticks cost more than the budget, a millisecond each on one core, the session costs
	// more. A smaller budget leads to fewer ticks in proportion, but to one a second at least.
	rarestDefault, rarest = 100e6, 1e9
)

const (
	// PassEvery is the time between two passes of the drain while something runs, so samples of
	// what runs stay in the ring for not much longer.
	PassEvery = 40 * time.Millisecond

	// drainRarest is the longest such time to which a budget leads, in a process that may use less
	// than a core.
	drainRarest = 200 * time.Millisecond

	// PassIdle is that time while nothing runs. A pass costs more than ten ticks then, because the
	// runtime wakes several threads for it. The tick thread ends the wait if something runs, see
	// wakeDrain.
	PassIdle = time.Second
)

func NewBudget(percent float64, rate int, now Clocks) *Budget {
	b := &Budget{percent: percent, asked: 1e9 / float64(max(rate, 1)), Quota: FewVisits, Every: PassEvery, last: now}
	b.Period = b.within(firstCost / b.allowed(now.Cores))
	return b
}

// allowed is the budget in ns of CPU time per ns.
func (b *Budget) allowed(cores float64) float64 { return b.percent / 100 * cores }

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

	// Stacks have not taken longer than the pass, which may have lost its core.
	ofRunning, ofVisits := min(now.Reading-last.Reading, now.Pass), 0.0
	base := now.Pass - ofRunning
	if records := now.Records - last.Records; records > answered {
		ofVisits = ofRunning * (1 - answered/records)
		ofRunning -= ofVisits
	}
	idle := 1.0
	if d.ticks > 0 {
		idle -= min(1, (now.Running-last.Running)/d.ticks/float64(max(now.Procs, 1)))
	}
	d.onPasses = base + busyWakeCost + (wakeCost-busyWakeCost)*idle
	d.onTicks = ticker - visiting + d.ticks*tickCost + answered*signalCost +
		now.Handling - last.Handling + ofRunning
	d.onVisits = visiting + ofVisits
	if all, most := d.onPasses+d.onTicks+d.onVisits, now.Process-last.Process; all > most && most > 0 {
		d.onPasses, d.onTicks, d.onVisits = d.onPasses*most/all, d.onTicks*most/all, d.onVisits*most/all
	}
	all, allowed := d.onPasses+d.onTicks+d.onVisits, b.allowed(now.Cores)
	b.Total += time.Duration(all)
	b.saved = min(max(b.saved+allowed*d.time-all, -allowed*float64(repayIn)/2), allowed*float64(repayIn)/8)
	b.sums.add(d)
	b.set(now, d.time)
}

// within returns the mean time between two ticks that is the nearest to a time, within the bounds.
func (b *Budget) within(period float64) float64 {
	return max(b.asked, min(period, rarest, rarestDefault/min(1, b.percent)))
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

// Share is what may be spent between two ticks, in ns.
func (b *Budget) Share(cores float64) float64 { return b.allowed(cores) * b.Period }

// set sets period, quota and every. Passes come first, because what they have not taken is lost if
// the program is killed. Then come ticks, each with the visits that it makes: to new goroutines and
// to those that have moved.
func (b *Budget) set(now Clocks, took float64) {
	c := &b.sums
	if c.ticks < 1 {
		return
	}
	allowed := b.allowed(now.Cores)
	perPass, perTick, perVisit, wanted := c.onPasses/c.passes, c.onTicks/c.ticks, 100.0, 0.0
	forPasses := allowed / 4
	b.Every = time.Duration(min(max(perPass/forPasses, float64(PassEvery)), float64(drainRarest)))
	left := max(allowed/20, allowed-c.onPasses/c.time+b.saved/float64(repayIn))
	// What ticks that come later do not use, others may use.
	left /= min(1, max(1.0/4, c.ticks*b.Period/c.time))
	if c.visits >= 1 {
		perVisit = max(1, c.onVisits/c.visits)
		wanted = c.news/c.ticks + min(c.wanted/c.ticks, max(FewVisits, (rareForMovers*left-perTick)/perVisit))
	}

	period := b.within((perTick + wanted*perVisit) / left)
	b.Period = min(max(b.Period+(period-b.Period)*min(1, took/settleIn), b.Period/2, b.asked), 2*b.Period)

	quota := max(wanted, (left*b.Period-perTick)/perVisit)
	// The quota grows slowly, because more visits at a tick cost less each.
	b.Quota = uint64(max(FewVisits, min(quota, 1.2*float64(b.Quota))))
}
