//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/own"
)

const (
	// startLimit is how much CPU time Start may use before it gives up and another source takes over. Start usually uses 5 to
	// 20 ms. Time without a core does not count, because the source that takes over would need more.
	startLimit = 300 * time.Millisecond

	// onlyLimit replaces it where no other source takes over. Start never takes longer than this, with a core or without.
	onlyLimit = 10 * time.Second
)

// patience bounds how long Start takes. It belongs to a goroutine that has called own.Turn.
type patience struct {
	used         func() time.Duration // the CPU time of the goroutine's thread
	begun, turn  time.Time            // the turn is the last time slice
	before, most time.Duration        // CPU time at the begin, and allowed since then
	only         bool                 // no other source takes over
}

// newPatience returns the bound of a Start that begins now.
func newPatience(used func() time.Duration, fallback bool) *patience {
	p := &patience{used: used, begun: time.Now(), before: used(), most: startLimit, only: !fallback}
	if p.only {
		p.most = onlyLimit
	}
	return p
}

// cpuOfThread returns a clock of the CPU time of the calling thread.
func cpuOfThread() func() time.Duration {
	tid := unix.Gettid()
	return func() time.Duration { return time.Duration(threadCPU(tid)) }
}

// over returns an error if Start has taken too long. The error says what Start was doing. Otherwise it makes a pause if
// the last one was a while ago.
func (p *patience) over(doing string) error {
	if !p.lasts() || p.used()-p.before > p.most {
		return fmt.Errorf("Start gave up after %v %s", time.Since(p.begun).Round(time.Millisecond), doing)
	}
	if time.Since(p.turn) > time.Millisecond {
		p.pause()
	}
	return nil
}

// allow gives what follows at least d.
func (p *patience) allow(d time.Duration) { p.most = max(p.most, p.used()-p.before+d) }

// lasts reports whether Start still waits for a thread or goroutine of its own that has not had a core.
func (p *patience) lasts() bool { return time.Since(p.begun) < onlyLimit }

// wait returns until when a check waits for what threads and goroutines with a core do: for a second, or as long as Start
// may take.
func (p *patience) wait() time.Time {
	end := time.Now().Add(time.Second)
	if last := p.begun.Add(onlyLimit); p.only && last.After(end) {
		return last
	}
	return end
}

// pause gives the caller a new time slice.
func (p *patience) pause() {
	own.Again()
	p.turn = time.Now()
}
