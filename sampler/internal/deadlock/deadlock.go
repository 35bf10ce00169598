// Package deadlock finds out that a program waits for ever, which a session would hide.
//
// The runtime ends a program with "all goroutines are asleep - deadlock!" when no
// thread of it runs or is in a system call and no timer is set. A session has both, so
// the runtime keeps silent and the program hangs. To find the same without the runtime
// takes three things:
//
//   - all goroutines but the profiler's own wait for one another ([Stuck]), and none of
//     them has run for a while ([Watch]). The source tells;
//   - no C code is there that could call in: the runtime never reports a deadlock then;
//   - no timer is set and no thread is at work ([Confirm]).
//
// The last is seen from outside, by what system calls the program's threads are in. When a
// thread finds nothing more to run and there is a timer or a goroutine that waits for
// I/O, the runtime has a thread wait in epoll; if there is none, all threads sleep on
// futexes.
package deadlock

import (
	"errors"
	"time"
)

// Err is what a source fails with when it has found a deadlock.
var Err = errors.New("all goroutines of the program wait for one another; the session ends so that the runtime can report the deadlock")

// stuck are the wait reasons out of which only another goroutine helps, or a timer.
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

// Stuck reports whether a goroutine with a wait reason, in the runtime's words, waits
// for another goroutine as far as one can see. [select] may hide a timer.
func Stuck(reason string) bool { return stuck[reason] }

const (
	patience    = time.Second
	maxPatience = time.Minute
)

// Watch follows what a source sees from look to look. The zero value is ready.
type Watch struct {
	mark  uint64
	since time.Time // when all were first seen to be stuck; zero: not all are
	next  time.Time
	wait  time.Duration
}

// Look takes what one look has shown: whether all goroutines are stuck, and a mark that
// is another one if one of them has run since the last look. It returns true if this has
// been so for a second, and it is time to call Confirm.
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

// Conclude takes what Confirm has returned and what a look after it shows, and reports
// whether the program waits for ever. If not, Look says no for a while, longer each time
// that something was seen which wakes the program.
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
	Dead                   // nothing will
	Unclear                // threads ran all the time, as on a machine that is busy
)
