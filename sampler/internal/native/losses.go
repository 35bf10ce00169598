//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// What a session needs can be taken from it in its course: a seccomp policy that is
// installed later refuses a system call, or C code sets the signal's action.
// Without this it would go on without the samples, and say nothing.

// losses is called before each pass of the drain. It takes the signal back where it may; an error says why
// there can be no more ticks.
func (n *Source) losses() error {
	if n.mute {
		return nil
	}
	lost, taken, err := keepSignal(n.signal, &n.old)
	if err != nil {
		return err
	}
	if taken {
		n.taken++
	}
	if lost {
		n.giveUp()
	}
	switch e := unix.Errno(n.s.refused); e {
	case 0, unix.ESRCH, unix.EAGAIN: // the thread ended; there was no memory for it
	default:
		return fmt.Errorf("rt_tgsigqueueinfo: %w: goroutines that run are not seen", e)
	}
	if n.s.unable != 0 {
		return fmt.Errorf("futex: %w", unix.Errno(n.s.unable))
	}
	if err := n.drain.unread; errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: new goroutines are not seen", err)
	}
	return nil
}

// giveUp frees the slots of signals that were sent and have no answer: the kernel may have
// dropped them, and the tick thread would wait for a thousand ticks. One that comes all the same has
// the number of an earlier signal, which onInterrupt allows for.
func (n *Source) giveUp() {
	s := n.s
	for i := range s.nprocs {
		slot := s.slot(i)
		if st := loadAcquire(slot); st&0xff == slotSent && cas64(slot, st, (st&^0xff)+0x100) {
			n.dropped++
		}
	}
}
