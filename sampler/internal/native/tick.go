//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
)

// ticker is the thread that takes the ticks. It waits in a futex system call, so it holds no
// P and needs none. The timer's signal at the first tick interrupts the wait. The handler then
// stays on the thread and takes the other ticks too (handler.go). When the handler leaves, the
// kernel restarts the wait. A busy Go scheduler does not delay ticks.
type ticker struct {
	s     *shared
	word  uint32 // the futex: 1 ends the wait
	tid   int
	m     uint64 // its runtime.m, to which the goroutine is locked
	timer timer
	done  chan struct{}
}

// Operations of the futex system call.
const (
	futexWait       = 0
	futexWake       = 1
	futexWaitBitset = 9
	futexPrivate    = 128
)

// startTicker starts the thread.
func startTicker(s *shared, signal int) (*ticker, error) {
	t := &ticker{s: s, done: make(chan struct{})}
	up := make(chan error)
	own.Go(func() {
		defer close(t.done)
		defer own.Turn()()
		t.tid = unix.Gettid()
		t.m = mem.ReadWord(mem.Getg() + s.Off.GM)
		if blocked(signal) {
			up <- fmt.Errorf("signal %d is blocked in this process", signal)
			return
		}
		defer shortSlice()()
		up <- nil
		for atomic.LoadUint32(&t.word) == 0 {
			// Wait while the word is 0.
			unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&t.word)), futexWait|futexPrivate, 0, 0, 0, 0)
		}
	})
	if err := <-up; err != nil {
		<-t.done
		return nil, err
	}
	return t, nil
}

// shortSlice asks the kernel for a short time slice for this thread, so that it gets a core
// sooner. On a busy machine, a tick that waits until a running thread stops would always sample
// the moments at which threads stop. A thread needs no privilege for this. Kernels before 6.12
// ignore it. The returned function undoes it.
func shortSlice() (undo func()) {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return func() {}
	}
	old := attr.Runtime
	attr.Runtime = 100_000 // ns, the shortest there is
	if unix.SchedSetAttr(0, attr, 0) != nil {
		return func() {}
	}
	return func() {
		attr.Runtime = old
		unix.SchedSetAttr(0, attr, 0)
	}
}

// sigevent is the kernel's struct for SIGEV_THREAD_ID.
type sigevent struct {
	value  uint64
	signal int32
	notify int32
	tid    int32
	_      [44]byte
}

// sigevThreadID is SIGEV_THREAD_ID: the signal goes to one thread.
const sigevThreadID = 4

// timer is one of the kernel's timers.
type timer struct {
	id     int32
	exists bool
}

// create makes a timer on a clock, which sends a signal with a value to a thread.
func (t *timer) create(clock int32, signal, tid int, value uint64) error {
	ev := sigevent{value: value, signal: int32(signal), notify: sigevThreadID, tid: int32(tid)}
	_, _, e := unix.RawSyscall(unix.SYS_TIMER_CREATE, uintptr(clock), uintptr(unsafe.Pointer(&ev)), uintptr(unsafe.Pointer(&t.id)))
	if e != 0 {
		return fmt.Errorf("timer_create: %w", e)
	}
	t.exists = true
	return nil
}

// set makes the timer send signals from then on, one every so many ns.
func (t *timer) set(from, every uint64, flags uintptr) error {
	spec := [4]uint64{1: every, 2: from / 1e9, 3: from % 1e9}
	_, _, e := unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(t.id), flags, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("timer_settime: %w", e)
	}
	return nil
}

// delete deletes the timer once. Further calls do nothing, because the id may belong to
// another timer then.
func (t *timer) delete() {
	if t.exists {
		t.exists = false
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(t.id), 0, 0)
	}
}

// arm makes the ticks begin at ns on the monotonic clock. No tick may be due. The timer sends
// a signal every millisecond, because a signal has no effect that comes before the thread
// waits. Once the handler stays on the thread, the next signal stays pending.
func (t *ticker) arm(ns uint64) error {
	mem.StoreRelease(uintptr(unsafe.Pointer(&t.s.leave)), 0)
	return t.timer.set(ns, 1e6, unix.TIMER_ABSTIME)
}

// stopLimit bounds how long Stop waits for a thread that gets no core. Memory that such a
// thread may still use stays mapped.
const stopLimit = time.Second

// answerLimit bounds how long Stop waits for threads that were sent a signal and have not got
// a core since, and for goroutines that have nothing left to do but end.
const answerLimit = 200 * time.Millisecond

// shortNaps is how many times within waits with its P.
const shortNaps = 10

// within waits until done returns true, up to limit. It reports whether done returned true. It is
// for what other threads do without a P. Where many goroutines run, it can take seconds to get a P
// again, so at first within does not give up its own.
func within(limit time.Duration, done func() bool) bool {
	nap := unix.Timespec{Nsec: 20_000}
	for try, end := 0, time.Now().Add(limit); !done(); try++ {
		if time.Now().After(end) {
			return done()
		}
		if try < shortNaps {
			unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
	return true
}

// leave ends the ticks. It reports whether the handler has left the thread, so that no tick is
// under way.
func (t *ticker) leave() bool {
	mem.Swap64(uintptr(unsafe.Pointer(&t.s.leave)), 1) // complete before staying is read
	wake(unsafe.Pointer(&t.s.leave))
	return within(stopLimit, func() bool { return mem.LoadAcquire(uintptr(unsafe.Pointer(&t.s.staying))) == 0 })
}

// stop ends the ticks, the wait and the thread's goroutine. If it returns true, no tick is under
// way, and no other will be: a signal that is still pending finds that the ticks have ended. If it
// returns false, the thread has got no core for stopLimit. The goroutine ends when it gets a P.
func (t *ticker) stop() bool {
	atomic.StoreUint32(&t.word, 1) // before leave: when the handler leaves, the system call ends too
	wake(unsafe.Pointer(&t.word))
	return t.leave()
}

// wake wakes the thread that waits on a futex.
func wake(word unsafe.Pointer) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(word), futexWake|futexPrivate, 1, 0, 0, 0)
}
