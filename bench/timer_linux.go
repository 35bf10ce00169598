package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startTimer starts a thread that a timer's signal wakes at a rate. The handler is the Go
// runtime's, which has nothing to do. The thread waits in a system call, so it needs no P.
func startTimer(rate int, _ float64) (session, error) {
	var word uint32 // a futex: 1 ends the wait
	up, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		id, err := armTimer(unix.Gettid(), time.Second/time.Duration(rate))
		up <- err
		if err != nil {
			return
		}
		for atomic.LoadUint32(&word) == 0 {
			unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), futexWait, 0, 0, 0, 0)
		}
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
	}()
	if err := <-up; err != nil {
		return nil, err
	}
	return ending(func() (trace, error) {
		atomic.StoreUint32(&word, 1)
		unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), futexWake, 1, 0, 0, 0)
		<-done
		return trace{}, nil
	}), nil
}

const (
	futexWait = 0 | 128 // FUTEX_PRIVATE_FLAG
	futexWake = 1 | 128
)

// armTimer makes a timer that sends SIGURG to a thread. The runtime uses this signal itself
// and ignores unexpected ones.
func armTimer(tid int, period time.Duration) (id int32, err error) {
	event := struct { // the kernel's struct sigevent
		value          uint64
		signal, notify int32
		tid            int32
		_              [44]byte
	}{signal: int32(unix.SIGURG), notify: 4, tid: int32(tid)} // SIGEV_THREAD_ID
	if _, _, e := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id))); e != 0 {
		return 0, fmt.Errorf("timer_create: %w", e)
	}
	every := [2]int64{int64(period / time.Second), int64(period % time.Second)}
	spec := [2][2]int64{every, every} // interval, first
	if _, _, e := unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(id), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); e != 0 {
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
		return 0, fmt.Errorf("timer_settime: %w", e)
	}
	return id, nil
}
