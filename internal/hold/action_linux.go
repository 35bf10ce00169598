//go:build linux && (amd64 || arm64)

package hold

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handlerPC is the address of the handler.
var handlerPC uintptr

// sigaction is the kernel's struct, the same on amd64 and arm64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const sigIgnore = 1

// action returns the signal's action, and replaces it if new is not nil.
func action(sig syscall.Signal, new *sigaction) (old sigaction, err error) {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(new)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if e != 0 {
		err = os.NewSyscallError("rt_sigaction", e)
	}
	return old, err
}

// installed reports whether the signal has our handler.
func installed(sig syscall.Signal) bool {
	a, err := action(sig, nil)
	return err == nil && a.handler == handlerPC
}

// isGos reports whether a handler is that of this Go runtime. It recognises it by its name in the
// tables for tracebacks, which stripped programs have too.
func isGos(handler uintptr) bool {
	f := runtime.FuncForPC(handler)
	if f == nil || f.Entry() != handler {
		return false
	}
	name := f.Name()
	return name == "runtime.sigtramp" || name == "runtime.cgoSigtramp"
}

// A taken is a signal that has our handler.
type taken struct {
	signal syscall.Signal
	timer  int32
	old    sigaction
}

var (
	errIgnored = errors.New("the signal is ignored")
	errForeign = errors.New("the handler is not the Go runtime's")
)

// take makes a timer for the signal and installs our handler.
func take(sig syscall.Signal) (t taken, err error) {
	old, err := action(sig, nil)
	if err != nil {
		return t, err
	}
	if old.handler == sigIgnore {
		return t, errIgnored
	}
	if !isGos(old.handler) || shared.next != 0 && shared.next != old.handler {
		return t, errForeign
	}
	t = taken{signal: sig, old: old}
	if t.timer, err = newTimer(sig); err != nil {
		return t, err
	}
	shared.next, shared.timers[sig] = old.handler, t.timer
	// Only the handler differs: flags, mask and the code that it returns to stay the runtime's.
	ours := old
	ours.handler = handlerPC
	if before, err := action(sig, &ours); err != nil {
		deleteTimer(t.timer)
		return t, err
	} else if before != old { // it was changed in this moment
		_, _ = action(sig, &before)
		deleteTimer(t.timer)
		return t, errForeign
	}
	return t, nil
}

// restore installs the handler that was there before, unless somebody has replaced ours. It
// deletes the timer.
func (t *taken) restore() {
	if installed(t.signal) {
		_, _ = action(t.signal, &t.old)
	}
	deleteTimer(t.timer)
}

// timerSpec is the kernel's struct itimerspec. The interval is 0.
type timerSpec struct{ interval, value unix.Timespec }

func after(d time.Duration) timerSpec {
	return timerSpec{value: unix.NsecToTimespec(d.Nanoseconds())}
}

// sigevent is the kernel's struct. Its size is 64 bytes.
type sigevent struct {
	value  uintptr
	signal int32
	notify int32
	_      [48]byte
}

// newTimer makes a timer that sends the signal to the process. The handler recognises these
// signals by their value, which is the address of shared.
func newTimer(sig syscall.Signal) (id int32, err error) {
	const sigevSignal = 0
	ev := sigevent{value: uintptr(unsafe.Pointer(&shared)), signal: int32(sig), notify: sigevSignal}
	_, _, e := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ev)), uintptr(unsafe.Pointer(&id)))
	if e != 0 {
		return 0, os.NewSyscallError("timer_create", e)
	}
	return id, nil
}

// setTimer sets the timer and returns the time that it had left: 0 if it was not set or has expired.
func setTimer(id int32, s timerSpec) (left time.Duration, err error) {
	var old timerSpec
	_, _, e := unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(id), 0, uintptr(unsafe.Pointer(&s)), uintptr(unsafe.Pointer(&old)), 0, 0)
	if e != 0 {
		return 0, os.NewSyscallError("timer_settime", e)
	}
	return time.Duration(old.value.Nano()), nil
}

func deleteTimer(id int32) { unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0) }
