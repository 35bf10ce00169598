//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/mem"
)

// rest waits until the next pass is due. idle says that nothing has run since the last pass, soon that
// there may be a deadlock. rest returns false if the session has ended. It leaves no timer behind.
func (n *Source) rest(idle, soon bool) (goesOn bool) {
	d := n.budget.Every
	if idle && n.hears() {
		if d = cost.PassIdle; soon {
			d = looksEvery
		}
		mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.asleep)), 1)
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.passDue)), monotonicNow()+uint64(d))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-n.quit:
		return false
	case <-t.C:
	case <-n.rung:
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.asleep)), 0)
	return true
}

// listen ends a long wait of the drain when the handler rings. The handler can wake only a thread
// that is in a system call. The drain itself is not in one: a thread in a system call keeps its P
// for up to 10 ms, and the runtime's monitor wakes up fifty times meanwhile. This thread is in one
// all the time.
func (n *Source) listen() {
	defer close(n.deaf)
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.listenG)), uint64(mem.Getg()))
	bell := unsafe.Pointer(&n.s.bell)
	for {
		_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(bell), futexWait|futexPrivate, 0, 0, 0, 0)
		switch e {
		case 0, unix.EINTR, unix.EAGAIN:
		default:
			return
		}
		rung := mem.Swap64(uintptr(bell), 0) != 0
		select {
		case <-n.quit:
			return
		default:
		}
		if rung {
			select {
			case n.rung <- struct{}{}:
			default:
			}
		}
	}
}

// hears reports whether listen goes on.
func (n *Source) hears() bool {
	select {
	case <-n.deaf:
		return false
	default:
		return true
	}
}

// endWaits ends the drain's loop and listen.
func (n *Source) endWaits() {
	close(n.quit)
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.bell)), 1)
	wake(unsafe.Pointer(&n.s.bell))
	<-n.done
	<-n.deaf
}
