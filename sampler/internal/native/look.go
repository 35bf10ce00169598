//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// lastLook bounds the time of the lookOnce at the end of a session. On an idle machine
// a hundred thousand goroutines take a quarter of it.
const lastLook = 400 * time.Millisecond

// askedLook bounds it for looks that are asked for: nobody's Stop waits for these.
const askedLook = 2 * time.Second

// Looks that are asked for take at most one part in lookPart of a core on the tick thread.
const lookPart = 10

// Look asks for a sample of every goroutine; see source.Source.
func (n *Source) Look() <-chan struct{} {
	c := make(chan struct{})
	n.mu.Lock()
	n.asked = append(n.asked, c)
	n.mu.Unlock()
	select {
	case n.rung <- struct{}{}:
	default:
	}
	return c
}

// answer makes one look for all that have asked for one.
func (n *Source) answer() {
	if time.Since(n.looks.ended) < lookPart*n.looks.took {
		return
	}
	n.mu.Lock()
	asked := n.asked
	n.asked = nil
	n.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	before := cost.ThreadCPU(n.ticker.tid)
	n.lookOnce(askedLook, false)
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.hurry)), 0)
	n.looks.ended = time.Now()
	n.looks.took = time.Duration(cost.ThreadCPU(n.ticker.tid) - before)
	for _, c := range asked {
		close(c)
	}
	n.pass() // while nothing runs, the next one would come a second later
}

// lookOnce makes the ticks record every goroutine once more. Otherwise the time since each
// goroutine's last record would be missing from the profile. It takes most at most. last says that
// there are no more ticks after that one: the goroutines are recorded up to the end of the session.
func (n *Source) lookOnce(most time.Duration, last bool) {
	s := n.s
	if n.mute || n.broken || s.unable != 0 {
		return
	}
	if last {
		mem.StoreRelease(uintptr(unsafe.Pointer(&s.ending)), 1)
	}
	asked := s.sweeps + 1
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.sweeps)), asked)
	n.hurry()
	for end := time.Now().Add(most); time.Now().Before(end); n.pass() { // a pass makes room in the ring
		for ticks := s.ticks; s.ticks == ticks && time.Now().Before(end); {
			time.Sleep(100 * time.Microsecond)
			if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.swept))) == asked {
				return // mostly one tick is enough
			}
		}
	}
}

// hurry makes the next tick come at once, and ends the idle state until hurry is 0 again.
func (n *Source) hurry() {
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.hurry)), 1)
	wake(unsafe.Pointer(&n.s.leave))
}
