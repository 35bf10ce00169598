//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

// During a session the program can take away what the session needs: a seccomp policy that is
// installed later refuses a system call, or C code sets the signal's action. losses finds that.
// Otherwise the session would lose samples without any message.

// losses is called before each pass of the drain. It sets our handler again if the signal is
// ignored or has its default. An error says why there can be no more ticks.
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
	if err := n.refusal(); err != nil {
		return fmt.Errorf("%w: running goroutines cannot be sampled", err)
	}
	if n.s.unable != 0 {
		return fmt.Errorf("futex: %w", unix.Errno(n.s.unable))
	}
	err = n.drain.unread
	if e := unix.Errno(n.s.unlisted); err == nil && e != 0 {
		err = fmt.Errorf("process_vm_readv: %w", e)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: new goroutines cannot be sampled", err)
	}
	return nil
}

// refusal returns why signals cannot be sent to running goroutines, nil if they can.
func (n *Source) refusal() error {
	switch e := unix.Errno(n.s.refused); e {
	case 0, unix.ESRCH, unix.EAGAIN: // the thread ended; there was no memory for it
		return nil
	default:
		return fmt.Errorf("rt_tgsigqueueinfo: %w", e)
	}
}

// giveUp frees the slots of signals that have no answer. The kernel may have dropped them, and
// the tick thread would wait a thousand ticks for each. If such a signal arrives later, its
// generation is out of date, and onInterrupt handles that.
func (n *Source) giveUp() {
	s := n.s
	for i := range s.nprocs {
		slot := s.slot(i)
		if st := mem.LoadAcquire(slot); st&0xff == slotSent && mem.Cas64(slot, st, (st&^0xff)+0x100) {
			n.dropped++
		}
	}
}
