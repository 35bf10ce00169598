//go:build linux && (amd64 || arm64)

package hold

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/own"
)

// memory is what the handler and the goroutines share. The handler knows these fields. There are
// no Go pointers in it.
type memory struct {
	state  uint32
	kept   uint32                  // the signal that is kept
	next   uintptr                 // the runtime's handler; it is not removed again
	bound  timerSpec               // how long a signal is kept at most
	one    uint64                  // what the handler writes to wake
	wake   int32                   // an eventfd
	timers [unix.SIGTERM + 1]int32 // by signal, SIGTERM at most
}

// The values of memory.state.
const (
	stateOff     = iota // signals are passed on
	stateWaiting        // the next signal will be kept
	stateKept           // a signal is kept, others are passed on
	statePassed         // the signal that was kept has been passed on
)

var shared memory

func state() uint32 { return atomic.LoadUint32(&shared.state) }

// change replaces a state by another one. It returns false if the state is a different one.
func change(from, to uint32) bool { return atomic.CompareAndSwapUint32(&shared.state, from, to) }

// inUse is true while the handler is installed: there is one handler for the process.
var inUse atomic.Bool

// A watch is what First sets up.
type watch struct {
	file  *os.File // the eventfd
	taken []taken
	ended chan struct{} // closed when run has returned
}

// First keeps the first of the signals that the process gets from the program, until f has
// returned, but not longer than bound. f runs in a goroutine of its own, at most once. No signal may
// have a higher number than SIGTERM. A signal that is ignored when First is called is left alone.
//
// end must be called when signals are not to be kept any more, but not by f. If a signal is being
// kept, end returns when f has returned and the program has got the signal. end may be called several
// times.
//
// First returns an error if a signal has a handler that is not the Go runtime's. After an error
// everything is as before.
func First(bound time.Duration, f func(), signals ...syscall.Signal) (end func(), err error) {
	if !inUse.CompareAndSwap(false, true) {
		return nil, errors.New("hold: already in use")
	}
	w := &watch{ended: make(chan struct{})}
	if err := w.begin(bound, signals); err != nil {
		w.release()
		return nil, fmt.Errorf("hold: %w", err)
	}
	own.Go(func() { w.run(f) })
	return sync.OnceFunc(w.end), nil
}

func (w *watch) begin(bound time.Duration, signals []syscall.Signal) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd2", err)
	}
	w.file = os.NewFile(uintptr(fd), "eventfd")
	if err := w.file.SetReadDeadline(time.Time{}); err != nil {
		return err // epoll does not take it, so no goroutine can wait for it
	}
	shared.bound, shared.one, shared.wake = after(bound), 1, int32(fd)
	for _, s := range signals {
		t, err := take(s)
		if err == errIgnored {
			continue
		}
		if err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
		w.taken = append(w.taken, t)
	}
	atomic.StoreUint32(&shared.state, stateWaiting)
	return nil
}

// run waits until a signal is kept. It runs f and lets the program have the signal. It also returns
// when end has closed the file.
func (w *watch) run(f func()) {
	defer close(w.ended)
	var b [8]byte
	_, err := w.file.Read(b[:])
	if err != nil && (change(stateWaiting, stateOff) || state() == stateOff) {
		w.release()
		return
	}
	f()
	if w.pass() {
		w.release()
	}
}

// passLimit bounds the wait for the timer's signal. It takes longer only if all threads of the
// program block the signal, or are stopped.
const passLimit = 5 * time.Second

// pass makes the timer send the signal that is kept, unless the timer has done so. It returns when
// the handler has passed the signal on, or when the program has begun to ignore it. It returns
// false if the signal is still pending. Handler and timer must stay then.
func (w *watch) pass() bool {
	if state() == statePassed {
		return true
	}
	sig := syscall.Signal(shared.kept)
	left, err := setTimer(shared.timers[sig], after(1))
	if err != nil { // only a policy can refuse it that the program has set since
		if change(stateKept, statePassed) {
			_ = syscall.Kill(syscall.Getpid(), sig)
		}
		return true
	}
	for begin := time.Now(); state() != statePassed && installed(sig); time.Sleep(50 * time.Microsecond) {
		if time.Since(begin) > passLimit {
			return false
		}
	}
	if left == 0 {
		// The time bound had passed just before, so the timer may send the signal twice. The
		// handler must stay until it has dropped the second one.
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// end makes the handler keep no more signals.
func (w *watch) end() {
	for !change(stateWaiting, stateOff) && state() != stateOff {
		select {
		case <-w.ended: // a signal has come
			return
		case <-time.After(10 * time.Millisecond): // look at the state again: the handler may have failed
		}
	}
	w.file.Close()
	<-w.ended
}

// release undoes what begin did.
func (w *watch) release() {
	for i := range w.taken {
		w.taken[i].restore()
	}
	if w.file != nil {
		w.file.Close()
	}
	inUse.Store(false)
}
