//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stop ends sampling; see source.Source.
func (n *Source) Stop() {
	n.endWaits()
	n.lookOnce()
	ended := n.silence()
	if !n.broken {
		if ended {
			n.finishRing()
		}
		n.drain.end = true
		func() {
			defer n.caught()
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			n.pass()
		}()
	}
	n.giveBack()
}

// lastLook bounds the time in which Stop visits all goroutines once more. On an idle machine
// a hundred thousand goroutines take a quarter of it.
const lastLook = 400 * time.Millisecond

// lookOnce makes the ticks visit every goroutine once more. Otherwise the time since each
// goroutine's last visit would be missing from the profile. It does nothing if every tick
// visits all goroutines anyway. It takes lastLook at most.
func (n *Source) lookOnce() {
	s := n.s
	if n.mute || n.broken || s.unable != 0 || s.moving.n+s.active.n-s.active.dead+s.still.n <= s.quota>>16/4 {
		return
	}
	defer n.caught()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	n.hurry()
	circles := [...]*circle{&s.moving, &s.active, &s.still}
	var begin, before [len(circles)]circle
	for i, c := range circles {
		begin[i] = *c
	}
	for end := time.Now().Add(lastLook); time.Now().Before(end); {
		for i, c := range circles {
			before[i] = *c
		}
		allot(s, 1<<40)
		for ticks := s.ticks; s.ticks == ticks && time.Now().Before(end); {
			time.Sleep(100 * time.Microsecond)
		}
		all := true
		for i, c := range circles {
			// Entries leave circles meanwhile. If all of a circle are dead, visits do not pass them.
			all = all && (c.n <= c.dead || c.passed-begin[i].passed >= begin[i].n || c.passed-before[i].passed >= c.n)
		}
		if all {
			allot(s, fewVisits<<16)
			return // mostly one tick is enough; the last pass follows at once, so that little time comes after it
		}
		n.pass() // it makes room in the ring, and sets the usual quota again
	}
}

// hurry makes the next tick come at once, and ends the idle state for good.
func (n *Source) hurry() {
	storeRelease(uintptr(unsafe.Pointer(&n.s.hurry)), 1)
	wake(unsafe.Pointer(&n.s.leave))
}

// silence ends the ticks. Then it waits up to answerLimit for threads that have not answered. It
// returns false if a tick may still be under way: then only that tick may write to the ring.
func (n *Source) silence() (ended bool) {
	storeRelease(uintptr(unsafe.Pointer(&n.s.quiet)), 1)
	n.ended = time.Now()
	n.drain.threads.stopAll()
	n.ticker.deleteTimer()
	ended = n.ticker.stop()
	within(answerLimit, func() bool { return !n.pending() })
	return ended
}

// answerLimit bounds how long Stop waits for threads that were sent a signal and have not got
// a core since.
const answerLimit = 200 * time.Millisecond

// pending reports whether a living thread has not answered its signal yet.
func (n *Source) pending() bool {
	for i := uint64(0); i < n.s.nprocs; i++ {
		slot := n.s.slot(i)
		if st := loadAcquire(slot) & 0xff; st == slotSent || st == slotFilling {
			if unix.Tgkill(os.Getpid(), int(load64(slot+slotTID*8)), 0) == nil {
				return true
			}
		}
	}
	return false
}

// finishRing copies the last answers to the ring, as the next tick would have done.
func (n *Source) finishRing() {
	s := n.s
	s.write = s.head
	for i := uint64(0); i < s.nprocs; i++ {
		slot := s.slot(i)
		if st := loadAcquire(slot); st&0xff == slotFilled {
			harvest(s, slot)
			storeRelease(slot, st&^0xff)
		}
	}
	storeRelease(uintptr(unsafe.Pointer(&s.head)), s.write)
}
