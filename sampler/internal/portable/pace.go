package portable

import (
	"math/rand/v2"
	"time"
)

// The rules of pacing.
const (
	// jitter is how far a period strays from the asked one, either way. A
	// program that does something every millisecond would otherwise be seen at
	// the same point of it for ever.
	jitter = 0.06
	// window is how much unused allowance may be spent in one go.
	window = time.Second
	// maxWait bounds the time between two ticks whatever they cost. A machine that
	// was suspended in the middle of a tick makes that tick look very dear.
	maxWait = time.Minute
)

// pacer says when the next tick is due. It keeps a leaky bucket of CPU time: a tick
// pours in what it cost, the allowance drains it. While the bucket is above empty,
// nothing is due. It starts empty with no credit, so what ticks cost since the start
// never exceeds the allowance by more than the last of them, and there
// is no least rate: where one tick stops a program with 100,000 goroutines for
// a second, a tick a second would cost far more than the program's owner agreed to.
type pacer struct {
	period time.Duration
	budget float64       // percent
	debt   time.Duration // CPU time owed; negative: credit, down to a window's allowance
	last   time.Duration // when debt was reckoned
	due    time.Duration // when the last tick was due by the period alone
	random func() float64
}

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
	if p.debt > 0 {
		// Only longer: a shorter wait would exceed the budget.
		pay := time.Duration(float64(p.debt) / share * (1 + 2*jitter*p.random()))
		wait = max(wait, pay)
	}
	return min(wait, maxWait)
}
