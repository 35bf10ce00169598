//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
)

// Stop ends sampling; see source.Source.
func (n *Source) Stop() {
	n.endWaits()
	n.guarded(func() { n.lookOnce(lastLook, true) })
	ended := n.silence()
	own.Again() // what follows can take some ms
	if !n.broken {
		if ended {
			n.finishRing()
		}
		n.drain.end = true
		n.guarded(n.pass)
	}
	n.giveBack()
}

// guarded calls f, which may fault or panic.
func (n *Source) guarded(f func()) {
	defer n.caught()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	f()
}

// silence ends the ticks. Then it waits up to answerLimit for threads that have not answered. It
// returns false if a tick may still be under way: then only that tick may write to the ring.
func (n *Source) silence() (ended bool) {
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.quiet)), 1)
	n.ended = time.Now()
	n.drain.threads.stopAll()
	n.ticker.timer.delete()
	ended = n.ticker.stop()
	within(answerLimit, func() bool { return !n.pending() })
	return ended
}

// pending reports whether a living thread has not answered its signal yet.
func (n *Source) pending() bool {
	for i := uint64(0); i < n.s.nprocs; i++ {
		slot := n.s.slot(i)
		if st := mem.LoadAcquire(slot) & 0xff; st == slotSent || st == slotFilling {
			if unix.Tgkill(os.Getpid(), int(mem.Load64(slot+slotTID*8)), 0) == nil {
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
		if st := mem.LoadAcquire(slot); st&0xff == slotFilled {
			harvest(s, slot)
			mem.StoreRelease(slot, st&^0xff)
		}
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.head)), s.write)
}
