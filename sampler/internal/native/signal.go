//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

// defaultSignal is SIGURG, which the runtime uses to preempt threads. It is safer for the
// program than any other signal:
//
//   - The source uses no other signal of the program.
//   - The runtime handles it from the start to the end of every Go program, and an additional
//     one does no harm: by the documentation of os/signal, programs must expect them. So a
//     signal that is still pending when a session ends does no harm.
//   - The kernel ignores it by default. A signal that is pending when the thread calls execve
//     stays pending in the new program, which has no handler. A real-time signal would end
//     that program. (After a fork the child has no pending signals.)
//   - It does not queue, so a thread that blocks it cannot fill the user's limit of pending
//     signals. handler.go describes what happens to a signal that is lost because another is
//     pending.
//   - Its other use, urgent data on sockets, is sent to the process, whose pending signals are
//     separate. The handler passes it on to Go's handler.
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

func getAction(signal int) (sigaction, error) { return swapAction(signal, nil) }

// setAction sets the action and returns the old one, in one step.
func setAction(signal int, a sigaction) (old sigaction, err error) { return swapAction(signal, &a) }

// swapAction returns the action, and sets another one unless that is nil.
func swapAction(signal int, a *sigaction) (old sigaction, err error) {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if e != 0 {
		err = fmt.Errorf("rt_sigaction of signal %d: %w", signal, e)
	}
	return old, err
}

// ours is the action that makes the kernel call the handler.
func ours() sigaction {
	return sigaction{handlerPC, saSiginfo | saRestorer | saOnStack | saRestart, restorerPC, ^uint64(0)}
}

// replaced is the action that takeSignal has replaced most recently.
var replaced sigaction

// takeSignal installs our handler in place of Go's, of the default or of being ignored. It
// returns the old action, for releaseSignal. After an error the action is as before.
//
// Our handler never passes a signal on to a handler that is not Go's, not even for a moment:
// that handler may call ours, and the two would call each other until the stack ends.
func takeSignal(signal int) (old sigaction, err error) {
	if old, err = getAction(signal); err != nil {
		return old, err
	}
	if old.handler == handlerPC {
		// Other code has had the signal for a while and has restored our handler.
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
		// Another handler was set since getAction.
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

// passOn sets the handler that gets the signals that are not ours: Go's handler, or none if
// the program ignores the signal. It returns the previous setting. The setting stays valid
// after the session, because other code may keep the address of our handler and call it.
func passOn(to sigaction) (before sigaction) {
	before, replaced = replaced, to
	next := uint64(0)
	if to.handler > sigIgnore {
		next = uint64(to.handler)
	}
	mem.Swap64(uintptr(unsafe.Pointer(&oldHandler)), next)
	return before
}

// isGos reports whether the action is ignore, default, or the handler of this Go runtime. It
// recognises the runtime's handler by its name in the tables for tracebacks, which stripped
// programs have too. In a process with two Go runtimes the tables know only the code of this
// one. It would not be enough that SIGSEGV has the same handler: crash reporters use one
// handler for several signals.
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

// usesC reports whether the program is linked with C: then the runtime has another handler. old is
// the action of our signal before the session.
func usesC(old sigaction) bool {
	segv, _ := getAction(int(unix.SIGSEGV))
	for _, a := range []sigaction{old, segv} {
		if f := runtime.FuncForPC(a.handler); f != nil && f.Name() == "runtime.cgoSigtramp" {
			return true
		}
	}
	return false
}

// releaseSignal restores the old action, unless other code has set another handler.
func releaseSignal(signal int, old sigaction) {
	if a, err := getAction(signal); err != nil || a.handler != handlerPC {
		return
	}
	if a, err := setAction(signal, old); err == nil && a.handler != handlerPC {
		setAction(signal, a)
	}
}

// keepSignal checks the handler during a session. If Go has set its own handler again, or the
// program has set the signal to ignored (as signal.Ignore does) or default, keepSignal
// installs ours again and stores the action that it replaced in old, for releaseSignal. lost
// says that signals were lost meanwhile, and taken that the action was ignore or default. If
// there is another handler, keepSignal leaves it and returns an error: there can be no more
// ticks.
func keepSignal(signal int, old *sigaction) (lost, taken bool, err error) {
	a, err := getAction(signal)
	if err != nil || a.handler == handlerPC {
		return false, false, nil
	}
	if a, err = takeSignal(signal); err != nil {
		return false, false, fmt.Errorf("signal %d has got another handler", signal)
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
