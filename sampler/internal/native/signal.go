//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// defaultSignal is SIGURG, which the runtime interrupts threads with for preemption.
// That is a choice for the program's safety over any other signal:
//
//   - no other signal of the program's is touched;
//   - the runtime handles it from the start to the end of every Go program, and one too many
//     does no harm: os/signal says of it that programs have to expect that. So what
//     may be pending when a session ends is nobody's problem;
//   - its default is to be ignored. A signal that is pending when the thread calls
//     execve outlives the handler, and the new program would die of a real-time
//     signal's default. (A fork is no such case: the child is another process.)
//   - it does not queue, so a thread that blocks it cannot fill the user's limit of
//     pending signals. handler.go says how one that was lost in another is made good;
//   - what else it is for, urgent data on sockets, is sent to processes and has a
//     queue of its own, and is passed on to Go's handler.
const defaultSignal = int(unix.SIGURG)

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

// setAction returns what was there, at the moment of the change.
func setAction(signal int, a sigaction) (old sigaction, err error) {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if e != 0 {
		err = fmt.Errorf("rt_sigaction of signal %d: %w", signal, e)
	}
	return old, err
}

// ours is the action that makes the kernel call the handler.
func ours() sigaction {
	return sigaction{handlerPC, saSiginfo | saRestorer | saOnStack | saRestart, restorerPC, ^uint64(0)}
}

// replaced is the action that takeSignal put ours in place of, the last time.
var replaced sigaction

// takeSignal puts our handler where Go's is, or where the program ignores the
// signal. What was there comes back for releaseSignal. After an error all is as it was.
//
// A handler that is not Go's is never passed on to, not for an instant: it may be one
// that calls ours, and the two would call each other until the stack ends.
func takeSignal(signal int) (old sigaction, err error) {
	if old, err = getAction(signal); err != nil {
		return old, err
	}
	if old.handler == handlerPC {
		// Somebody who had the signal for a while has given it back to us.
		return replaced, nil
	}
	if !isGos(old) {
		return old, fmt.Errorf("signal %d has a handler that is not Go's", signal)
	}
	before := passOn(old)
	if old, err = setAction(signal, ours()); err != nil {
		return old, err
	}
	if old.handler != handlerPC && !isGos(old) {
		// It came in between.
		setAction(signal, old)
		passOn(before)
		return old, fmt.Errorf("signal %d has a handler that is not Go's", signal)
	}
	if old.handler == handlerPC {
		old = replaced
	}
	passOn(old)
	return old, nil
}

// passOn makes the handler pass on what is not ours to Go's handler, or to none where
// the program ignores the signal, and returns what it did before. It holds after the
// session too, for those who keep our handler's address.
func passOn(to sigaction) (before sigaction) {
	before, replaced = replaced, to
	next := uint64(0)
	if to.handler > sigIgnore {
		next = uint64(to.handler)
	}
	swap64(uintptr(unsafe.Pointer(&oldHandler)), next)
	return before
}

// isGos reports whether nobody but this program's own Go runtime has set the action. The
// runtime's handler is known by its name, which is in the tables for tracebacks,
// of stripped programs too. That it has signals in common with SIGSEGV would not
// do: crash reporters have one handler for all of them. Nor does the name's end
// alone: in a process with two Go runtimes this one's tables tell of this one's
// code only.
func isGos(a sigaction) bool {
	if a.handler == sigDefault || a.handler == sigIgnore {
		return true
	}
	f := runtime.FuncForPC(a.handler)
	if f == nil || f.Entry() != a.handler {
		return false
	}
	name := f.Name()
	return name == "runtime.sigtramp" || name == "runtime.cgoSigtramp"
}

// releaseSignal gives the signal back, unless somebody else has it by now.
func releaseSignal(signal int, old sigaction) {
	if a, err := getAction(signal); err != nil || a.handler != handlerPC {
		return
	}
	if a, err := setAction(signal, old); err == nil && a.handler != handlerPC {
		setAction(signal, a)
	}
}

// keepSignal looks after the handler during a session. Where Go has set its own anew, or the
// program has set the signal to be ignored (signal.Ignore does) or to its default, ours
// is put back, and that is then what the signal is released to; lost says that
// signals were lost meanwhile, and taken that it was not Go. Another handler is let
// be, which is an error: there can be no more ticks.
func keepSignal(signal int, old *sigaction) (lost, taken bool, err error) {
	a, err := getAction(signal)
	if err != nil || a.handler == handlerPC {
		return false, false, nil
	}
	if a, err = takeSignal(signal); err != nil {
		return false, false, fmt.Errorf("signal %d was given another handler", signal)
	}
	*old = a
	return true, a.handler <= sigIgnore, nil
}

// blocked reports whether the calling thread blocks the signal.
func blocked(signal int) bool {
	var mask uint64
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(&mask)), 8, 0, 0)
	return mask>>(signal-1)&1 != 0
}
