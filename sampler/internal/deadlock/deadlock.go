// Package deadlock finds deadlocks of the program that a session would hide.
//
// The runtime ends a program with "all goroutines are asleep - deadlock!" if no thread runs or
// is in a system call and no timer is set. A session has threads in system calls and timers, so
// the runtime does not report the deadlock, and the program hangs. A deadlock has three
// conditions, which this package checks without the runtime:
//
//   - All goroutines except the profiler's own wait for one another ([Stuck]), and none of them
//     has run for a while ([Watch]). The source reads their states.
//   - There is no C code that could call Go. The runtime reports no deadlock if there is.
//   - No timer is set, and no thread runs.
//
// For the last one the native source reads the Ps of the runtime. The portable source calls
// [Confirm], which reads in which system calls the program's threads are. When the runtime finds
// nothing more to run, but there is a timer or a goroutine that waits for I/O, one thread waits in
// epoll. Otherwise all threads sleep on futexes.
package deadlock

import (
	"errors"
	"time"
)

// Err is the error of a source that has found a deadlock.
var Err = errors.New("all goroutines of the program wait for one another; the session ends so that the runtime can report the deadlock")

// stuck has the wait reasons that only another goroutine, or a timer, can end.
var stuck = map[string]bool{
	"chan receive":            true,
	"chan receive (nil chan)": true,
	"chan send":               true,
	"chan send (nil chan)":    true,
	"select":                  true,
	"select (no cases)":       true,
	"semacquire":              true,
	"sync.Cond.Wait":          true,
	"sync.Mutex.Lock":         true,
	"sync.RWMutex.Lock":       true,
	"sync.RWMutex.RLock":      true,
	"sync.WaitGroup.Wait":     true,
	"coroutine":               true,
	"finalizer wait":          true,
	"cleanup wait":            true,
}

// Stuck reports whether a goroutine with this wait reason, in the runtime's words, probably waits
// for another goroutine. It may also wait for a timer, for example in a select.
func Stuck(reason string) bool { return stuck[reason] }

const (
	patience    = time.Second
	maxPatience = time.Minute
)

// Watch compares a source's looks at all goroutines. The zero value is ready for use.
type Watch struct {
	mark  uint64
	since time.Time     // the first look at which all were stuck; zero: not all are
	next  time.Time     // Look returns false until then
	wait  time.Duration // until the next call of Confirm
}

// Look takes the result of one look: whether all goroutines are stuck, and a mark that changes
// if one of them has run since the last look. It returns true if all have been stuck for a second
// without running. Then it is time to call Confirm.
func (w *Watch) Look(now time.Time, stuck bool, mark uint64) bool {
	if !stuck {
		*w = Watch{}
		return false
	}
	if w.since.IsZero() || mark != w.mark {
		*w = Watch{mark: mark, since: now, next: now.Add(patience), wait: patience}
		return false
	}
	return !now.Before(w.next)
}

// Conclude takes the result of Confirm and of a look after it. It reports whether there is a
// deadlock. If not, Look returns false for a while. That time gets longer with each verdict
// Alive.
func (w *Watch) Conclude(v Verdict, stuck bool, mark uint64) bool {
	if stuck && mark == w.mark && v == Dead {
		return true
	}
	if v == Alive {
		w.wait = min(2*w.wait, maxPatience)
	}
	w.next = time.Now().Add(w.wait)
	return false
}

// Verdict is what Confirm returns.
type Verdict int

const (
	Alive   Verdict = iota // a timer or another thread will wake the program
	Dead                   // nothing will wake the program
	Unclear                // threads ran all the time, for example on a busy machine
)
