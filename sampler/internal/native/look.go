//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/mem"
)

// lastLook bounds the time in which lookOnce visits all goroutines. On an idle machine
// a hundred thousand goroutines take a quarter of it.
const lastLook = 400 * time.Millisecond

// askedLook bounds it for looks that are asked for: nobody's Stop waits for these.
const askedLook = 2 * time.Second

// Looks that are asked for take at most one part in lookPart of a core on the tick thread.
const lookPart = 10

// looks are those that Look has asked for.
type looks struct {
	took  time.Duration // CPU time of the tick thread in the latest one
	ended time.Time
}

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
	n.lookOnce(true)
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.hurry)), 0)
	n.looks.ended = time.Now()
	n.looks.took = time.Duration(cost.ThreadCPU(n.ticker.tid) - before)
	for _, c := range asked {
		close(c)
	}
	n.pass() // while nothing runs, the next one would come a second later
}

// lookOnce makes the ticks visit every goroutine once more. Otherwise the time since each
// goroutine's last visit would be missing from the profile. It does nothing if every tick
// visits all goroutines anyway, unless one that comes now is needed. It takes lastLook or askedLook at most.
func (n *Source) lookOnce(now bool) {
	s := n.s
	if n.mute || n.broken || s.unable != 0 || !now && s.moving.n+s.active.n-s.active.dead+s.still.n <= s.quota>>16/4 {
		return
	}
	n.hurry()
	circles := [...]*circle{&s.moving, &s.active, &s.still}
	var begin, before [len(circles)]circle
	for i, c := range circles {
		begin[i] = *c
	}
	most := lastLook
	if now {
		most = askedLook
	}
	for end := time.Now().Add(most); time.Now().Before(end); {
		for i, c := range circles {
			before[i] = *c
		}
		allot(s, 1<<40)
		for ticks := s.ticks; s.ticks == ticks && time.Now().Before(end); {
			time.Sleep(100 * time.Microsecond)
		}
		all := true
		for i, c := range circles {
			// Entries leave circles meanwhile, also such as were passed. If all of a circle are dead, visits do not pass them.
			all = all && (c.n <= c.dead || c.passed-begin[i].passed >= begin[i].n || c.passed-before[i].passed >= before[i].n)
		}
		if all {
			allot(s, cost.FewVisits<<16)
			return // mostly one tick is enough; the last pass follows at once, so that little time comes after it
		}
		n.pass() // it makes room in the ring, and sets the usual quota again
	}
}

// hurry makes the next tick come at once, and ends the idle state until hurry is 0 again.
func (n *Source) hurry() {
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.hurry)), 1)
	wake(unsafe.Pointer(&n.s.leave))
}
