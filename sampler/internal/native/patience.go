//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"time"
)

const (
	// startLimit is how long Start may take before it gives up and another source takes over.
	// Start usually takes 5 to 20 ms.
	startLimit = 300 * time.Millisecond

	// busyLimit bounds Start where all cores are busy. Time in which Start only waits for a
	// core does not count against startLimit, because the source that takes over needs more.
	busyLimit = 2 * time.Second

	// onlyLimit replaces both where no other source takes over: a slow Start is better than none.
	onlyLimit = 10 * time.Second
)

// lostTurn is the time after which a goroutine that calls over all the time has lost its turn.
const lostTurn = 10 * time.Millisecond

// patience bounds how long Start takes.
type patience struct{ begun, until, end, paused time.Time }

// newPatience returns the bound of a Start that begins now. Where fallback is false no other
// source takes over.
func newPatience(now time.Time, fallback bool) *patience {
	if !fallback {
		return &patience{begun: now, until: now.Add(onlyLimit), end: now.Add(onlyLimit)}
	}
	return &patience{begun: now, until: now.Add(startLimit), end: now.Add(busyLimit)}
}

// over returns an error if Start has taken too long. The error says what Start was doing. It makes a pause if the last
// one was a while ago.
func (p *patience) over(doing string) error {
	now := time.Now()
	if gap := now.Sub(p.paused); !p.paused.IsZero() && gap > lostTurn {
		p.excused(gap - lostTurn)
	}
	if now.Before(p.until) {
		if now.Sub(p.paused) > time.Millisecond {
			p.pause()
		}
		return nil
	}
	return fmt.Errorf("Start gave up after %v %s", now.Sub(p.begun).Round(time.Millisecond), doing)
}

// allow gives what follows at least d, but no time beyond end.
func (p *patience) allow(d time.Duration) {
	if until := time.Now().Add(d); until.After(p.until) {
		p.until = until
	}
	if p.until.After(p.end) {
		p.until = p.end
	}
}

// wait returns until when a check waits for other threads or goroutines: at least for a second, and
// as long as Start may take. On a busy machine they can be without a core for longer than a second.
func (p *patience) wait() time.Time {
	second := time.Now().Add(time.Second)
	if p.end.Sub(p.begun) < onlyLimit || p.end.Before(second) {
		return second
	}
	return p.end
}

// sleep waits for d. The time beyond d is time in which the goroutine waits for a core.
func (p *patience) sleep(d time.Duration) {
	p.excuse(d, func() { time.Sleep(d) })
}

// pause gives the caller a new time slice. When a slice of 10 ms has ended, the runtime puts the goroutine behind
// all others that can run. If these need their slices too, that takes seconds. A goroutine whose timer has expired is the
// next one to run, but in the slice of the one before it. Only one that is locked to its thread, as Start's, has a slice
// of its own then (runtime.schedule).
func (p *patience) pause() {
	p.sleep(1)
	p.paused = time.Now()
}

// excuse calls f, which takes d on an idle machine. Time beyond d does not count.
func (p *patience) excuse(d time.Duration, f func()) {
	before := time.Now()
	f()
	p.excused(time.Since(before) - d)
}

// excused adds d to the time that Start may take, up to the end.
func (p *patience) excused(d time.Duration) {
	if d > 0 {
		if p.until = p.until.Add(d); p.until.After(p.end) {
			p.until = p.end
		}
	}
}
