package portable

import (
	"math/rand/v2"
	"time"
)

// The rules of pacing.
const (
	// jitter is how much a period differs from the asked one at most, as a share of it. Without
	// it, a program that does something every millisecond would always be sampled at
	// the same point.
	jitter = 0.06
	// window is how much unused allowance may be spent in one go.
	window = time.Second
	// maxWait bounds the time between two ticks whatever they cost. A tick during which
	// the machine was suspended seems to cost very much.
	maxWait = time.Minute
)

// pacer says when the next tick is due: at the asked rate, or as much more
// slowly as the budget demands.
//
// The wait after a tick must not depend on what that tick cost. It takes longer to stop
// a program that computes than one that sleeps. If each tick were paid for before
// the next, the tick after one in a computation would come later than others,
// often in the phase after the computation, and that phase would get the whole time
// since. With phases of some 40 ms that was wrong by ten points of a hundred. So
// the wait comes from the mean cost of many ticks, and the rest is made up for
// over a second. Only a debt of more than a second's allowance is paid at once.
// There is no least rate: at a cost of half a second, one tick a second would be far
// above any budget.
type pacer struct {
	period time.Duration
	budget float64       // percent
	ticks  int           // so far
	mean   float64       // cost of a tick, ns, the recent ones weighing most
	debt   time.Duration // CPU time owed; negative: credit, down to a window's allowance
	last   time.Duration // when debt was reckoned
	due    time.Duration // when the last tick was due by the period alone
	random func() float64
}

// meanTicks is over how many ticks, about, the mean cost reaches.
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

// next takes what the tick that just ended at now cost, and returns how long to wait
// for the next. procs is GOMAXPROCS.
func (p *pacer) next(now, cost time.Duration, procs int) time.Duration {
	share := p.budget / 100 * float64(procs) // CPU time allowed per time
	p.debt += cost - time.Duration(float64(now-p.last)*share)
	p.debt = max(p.debt, -time.Duration(float64(window)*share))
	p.last = now

	// Periods count from when the last tick was due, so that lateness does not
	// add up; ticks that are late by more than a period are lost.
	p.due += time.Duration(float64(p.period) * (1 + jitter*(2*p.random()-1)))
	p.due = max(p.due, now)
	wait := p.due - now
	p.ticks++
	p.mean += (float64(cost) - p.mean) / float64(min(p.ticks, meanTicks))
	if share > 0 {
		allowance := float64(window) * share
		before := float64(p.debt-cost) / allowance // owed before this tick, in windows
		pause := p.mean / share * max(1+min(before, 1), 0) * (1 + jitter*(2*p.random()-1))
		wait = max(wait, time.Duration(pause))
		if owed := float64(p.debt) / allowance; owed > 1 {
			wait = max(wait, time.Duration((owed-1)*float64(window)))
		}
	}
	return min(wait, maxWait)
}
