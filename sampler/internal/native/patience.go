//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"time"
)

const (
	// startLimit is how long Start may take before it gives up. It takes 5 to 20 ms as a rule.
	startLimit = 300 * time.Millisecond

	// busyLimit is the same where all cores are busy: time for which Start only waits for
	// a core does not count for startLimit. There the source that takes over does worse.
	busyLimit = 2 * time.Second
)

// patience is how long Start goes on.
type patience struct{ until, end time.Time }

func newPatience(now time.Time) *patience {
	return &patience{until: now.Add(startLimit), end: now.Add(busyLimit)}
}

// over returns an error once Start has taken too long, with what it does just now.
func (p *patience) over(doing string) error {
	now := time.Now()
	if now.Before(p.until) {
		return nil
	}
	return fmt.Errorf("Start gave up after %v %s", now.Sub(p.end.Add(-busyLimit)).Round(time.Millisecond), doing)
}

// allow gives what comes next d at least, within busyLimit.
func (p *patience) allow(d time.Duration) {
	if until := time.Now().Add(d); until.After(p.until) {
		p.until = until
	}
	if p.until.After(p.end) {
		p.until = p.end
	}
}

// sleep waits for d. What it takes beyond that, the goroutine waits for a core.
func (p *patience) sleep(d time.Duration) {
	p.excuse(d, func() { time.Sleep(d) })
}

// excuse calls f, which takes d on a machine that is not busy.
func (p *patience) excuse(d time.Duration, f func()) {
	before := time.Now()
	f()
	if late := time.Since(before) - d; late > 0 {
		if p.until = p.until.Add(late); p.until.After(p.end) {
			p.until = p.end
		}
	}
}
