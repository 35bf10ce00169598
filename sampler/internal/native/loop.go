//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/deadlock"
)

// rest waits until the next pass is due. idle says that nothing has run since the last pass, soon
// that there may be a deadlock. rest returns false if the session has ended; then Stop may already
// be at work in the drain's place. It leaves no timer behind.
func (n *Source) rest(idle, soon bool) (goesOn bool) {
	d := n.budget.Every
	if idle && !closed(n.deaf) {
		if d = cost.PassIdle; soon {
			d = looksEvery
		}
		n.long <- struct{}{}
		mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.asleep)), 1)
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.passDue)), monotonicNow()+uint64(d))
	t := time.NewTimer(d)
	defer t.Stop()
	n.resting.Store(true)
	goesOn = true
	select {
	case <-n.quit:
		goesOn = false
	case <-t.C:
	case <-n.rung:
	}
	if !n.resting.CompareAndSwap(true, false) {
		return false
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.asleep)), 0)
	n.takeLong()
	return goesOn
}

// takeLong takes back what rest has sent to listen, if listen has not.
func (n *Source) takeLong() {
	select {
	case <-n.long:
	default:
	}
}

// listen ends a long wait of the drain when the handler rings. The handler can wake only a thread
// that is in a system call. The drain itself is not in one: a thread in a system call keeps its P
// for up to 20 ms, and the runtime's monitor wakes up fifty times meanwhile. This thread is in one
// from the drain's first long wait until the handler rings; between that and the next long wait it
// is in none, because other goroutines run then, and need the P. When the session ends it needs a P
// to leave the system call, and can get that much later. So the bell is not in the memory that Stop
// gives back.
func (n *Source) listen() {
	defer close(n.deaf)
	n.listenG.Store(uint64(mem.Getg()))
	bell := unsafe.Pointer(n.bell)
	for {
		select {
		case <-n.long:
		case <-n.quit:
		}
		if closed(n.quit) { // perhaps both were ready, and endWaits has rung before
			return
		}
		for mem.Swap64(uintptr(bell), 0) == 0 {
			_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(bell), futexWait|futexPrivate, 0, 0, 0, 0)
			if e != 0 && e != unix.EINTR && e != unix.EAGAIN {
				return
			}
		}
		n.takeLong() // of the wait that ends now
		select {
		case n.rung <- struct{}{}:
		default:
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// endWaits ends the drain's loop and listen. Afterwards the caller is the drain: it waits for a
// pass that is under way, but not until the drain's goroutine has a turn.
func (n *Source) endWaits() {
	rested := n.resting.CompareAndSwap(true, false)
	close(n.quit)
	mem.StoreRelease(uintptr(unsafe.Pointer(n.bell)), 1)
	wake(unsafe.Pointer(n.bell))
	if !rested {
		<-n.done
	}
}

// loop is the drain's goroutine, the one that has begun the session: another one might have its
// first turn seconds later. It is locked to its thread, so that each pass has a time slice of its
// own, see own.Turn.
func (n *Source) loop() {
	defer close(n.done)
	defer n.caught()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.drainG)), uint64(mem.Getg()))
	standstill := newStandstill(n)
	ran := ^uint64(0)
	for {
		now := mem.LoadAcquire(uintptr(unsafe.Pointer(&n.s.ran)))
		idle := idleSince(n.s, ran)
		if ran = now; !n.rest(idle, standstill.soon) {
			return
		}
		if err := n.losses(); err != nil {
			n.mute = true
			n.s.quiet = 1
			n.drain.threads.stopAll()
			n.ticker.timer.delete()
			n.ticker.leave() // if it returns false, the tick that is under way ends as usual: it still has all that it uses
			n.drain.out.Fail(fmt.Errorf("native: %w", err))
		}
		n.pass()
		n.answer()
		if standstill.look(time.Now()) {
			n.drain.out.Fail(deadlock.Err)
			return
		}
	}
}

// caught recovers from a panic of the drain or of Out, so that it does not end the program.
// It reports the panic to the sampler, which stops the source.
func (n *Source) caught() {
	if r := recover(); r != nil {
		n.broken = true
		n.drain.out.Fail(fmt.Errorf("native: %v", r))
	}
}

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
