package portable

import (
	"math/rand/v2"
	"time"
)

// The rules of pacing.
const (
	// jitter is the largest difference between a period and the configured one, as a share of
	// it. Without jitter, a program that does something every millisecond would always be
	// sampled at the same point.
	jitter = 0.06
	// window is the time for which unused budget can be saved up.
	window = time.Second
	// maxWait bounds the time between two ticks, whatever they cost: a tick during which the
	// machine was suspended seems to cost very much.
	maxWait = time.Minute
)

// pacer decides when the next tick is due: at the configured rate, or more slowly if the budget
// requires it.
//
// The wait after a tick must not depend on the cost of that tick. Stopping a program takes longer
// while it computes than while it sleeps. If the wait depended on the last tick, a tick in a
// computation would delay the next one, often into the phase after the computation, and that
// phase would get all the time since. With phases of some 40 ms this gave errors of ten percentage
// points. So the wait follows from the mean cost of many ticks, and the difference is balanced
// over a second. Only a debt of more than one second's budget is paid at once. There is no lowest
// rate: at a cost of half a second, one tick a second would be far above any budget.
type pacer struct {
	period time.Duration
	budget float64       // percent
	ticks  int           // so far
	mean   float64       // moving average of the cost of a tick, ns
	debt   time.Duration // CPU time over the budget; negative: unused budget, at most a window's
	last   time.Duration // when debt was computed
	due    time.Duration // when the last tick was due by the period alone
	random func() float64
}

// meanTicks is about the number of ticks in the moving average of the cost.
const meanTicks = 64

func newPacer(rate int, budget float64, now time.Duration) *pacer {
	return &pacer{
		period: time.Second / time.Duration(rate),
		budget: budget,
		last:   now,
		due:    now,
		random: rand.Float64,
	}
}

// next returns the wait until the next tick. cost is the CPU time of the tick that has ended at
// now. The process may use so many cores.
func (p *pacer) next(now, cost time.Duration, cores float64) time.Duration {
	share := p.budget / 100 * cores // allowed CPU time per wall-clock time
	p.debt += cost - time.Duration(float64(now-p.last)*share)
	p.debt = max(p.debt, -time.Duration(float64(window)*share))
	p.last = now

	// Periods count from the time when the last tick was due, so that delays do not add up. Ticks
	// that are late by more than a period are lost.
	p.due += time.Duration(float64(p.period) * (1 + jitter*(2*p.random()-1)))
	p.due = max(p.due, now)
	wait := p.due - now
	p.ticks++
	p.mean += (float64(cost) - p.mean) / float64(min(p.ticks, meanTicks))
	if share > 0 {
		allowance := float64(window) * share
		before := float64(p.debt-cost) / allowance // debt before this tick, in windows
		pause := p.mean / share * max(1+min(before, 1), 0) * (1 + jitter*(2*p.random()-1))
		wait = max(wait, time.Duration(pause))
		if owed := float64(p.debt) / allowance; owed > 1 {
			wait = max(wait, time.Duration((owed-1)*float64(window)))
		}
	}
	return min(wait, maxWait)
}
