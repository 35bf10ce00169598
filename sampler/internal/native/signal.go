//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// defaultSignal is SIGWINCH, and that is a choice for the program's safety over
// a real-time signal:
//
//   - its default is to be ignored. A signal that is pending when the thread calls
//     execve outlives the handler, and the new program would die of a real-time
//     signal's default. (A fork is no such case: the child is another process.)
//   - it does not queue, so a thread that blocks it cannot fill the user's limit of
//     pending signals;
//   - what else it is for, terminals' sizes, is sent to processes and has a
//     queue of its own, and is passed on to Go's handler.
const defaultSignal = int(unix.SIGWINCH)

// sigaction is the kernel's struct, the same on amd64 and arm64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigDefault = 0
	sigIgnore  = 1

	saSiginfo  = 0x4
	saRestorer = 0x04000000
	saOnStack  = 0x08000000
	saRestart  = 0x10000000
)

func getAction(signal int) (a sigaction, err error) {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	if e != 0 {
		err = fmt.Errorf("rt_sigaction of signal %d: %w", signal, e)
	}
	return a, err
}

func setAction(signal int, a sigaction) error {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&a)), 0, 8, 0, 0)
	if e != 0 {
		return fmt.Errorf("rt_sigaction of signal %d: %w", signal, e)
	}
	return nil
}

// ours is the action that makes the kernel call the handler.
func ours() sigaction {
	return sigaction{handlerPC, saSiginfo | saRestorer | saOnStack | saRestart, restorerPC, ^uint64(0)}
}

// takeSignal puts our handler where Go's is, or none. What was there comes back
// for releaseSignal.
func takeSignal(signal int) (old sigaction, err error) {
	if old, err = getAction(signal); err != nil {
		return old, err
	}
	switch old.handler {
	case handlerPC:
		return old, fmt.Errorf("signal %d is already the profiler's", signal)
	case sigDefault, sigIgnore:
		if signal != int(unix.SIGWINCH) && signal != int(unix.SIGURG) && old.handler == sigDefault {
			old.handler = sigIgnore // what may be pending at the end must not kill
		}
	default:
		if !isGoHandler(old.handler) {
			return old, fmt.Errorf("signal %d has a handler that is not Go's", signal)
		}
	}
	next := old.handler
	if next == sigIgnore {
		next = sigDefault
	}
	oldHandler = next
	return old, setAction(signal, ours())
}

// isGoHandler compares a handler with those of signals that the runtime always
// handles, even where the program is a library of a C program.
func isGoHandler(handler uintptr) bool {
	for _, s := range []unix.Signal{unix.SIGURG, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE} {
		if a, err := getAction(int(s)); err == nil && a.handler == handler {
			return true
		}
	}
	return false
}

// releaseSignal gives the signal back, unless somebody else has it by now.
func releaseSignal(signal int, old sigaction) {
	if a, err := getAction(signal); err == nil && a.handler == handlerPC {
		setAction(signal, old)
	}
}

// keepSignal looks after the handler during a session. signal.Ignore takes it away;
// it is put back, and ignoring is then what it is released to. Another handler
// is let be: keepSignal says no, and there can be no more ticks.
func keepSignal(signal int, old *sigaction) bool {
	a, err := getAction(signal)
	if err != nil || a.handler == handlerPC {
		return true
	}
	switch {
	case a.handler == sigDefault, a.handler == sigIgnore, isGoHandler(a.handler):
		*old = a
		if a.handler > sigIgnore {
			oldHandler = a.handler
		} else {
			oldHandler = 0
		}
		return setAction(signal, ours()) == nil
	}
	return false
}

// blocked reports whether the calling thread blocks the signal.
func blocked(signal int) bool {
	var mask uint64
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(&mask)), 8, 0, 0)
	return mask>>(signal-1)&1 != 0
}
