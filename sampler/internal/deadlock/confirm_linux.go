package deadlock

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/own"
)

// Possible reports whether the runtime would report a deadlock of this program at all,
// and whether one can be confirmed here. Programs with C code have made a call by the
// time that main begins.
func Possible() bool {
	if runtime.NumCgoCall() > 0 {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", unix.Gettid()))
	return err == nil
}

// Confirm finds out whether no thread of the program is at work and no timer is set. The
// caller's thread and those given are left out. With GOMAXPROCS=1 it cannot be known, and
// the verdict is Alive. The caller has to wait for no timer of its
// own, and knows that all goroutines are stuck, before and after. Confirm takes some
// 100 ms, most of it asleep.
func Confirm(threads ...int) Verdict {
	if runtime.NumCgoCall() > 0 || runtime.GOMAXPROCS(0) < 2 {
		return Alive
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	threads = append(threads, unix.Gettid())

	// A thread whose timer has come needs a P to see to it. If there is none it sleeps on a
	// futex like one that has nothing to do. So there must be a P besides this thread's; it
	// may be taken for a moment, hence several rounds.
	v := Unclear
	for round, good := 0, 0; round < 12 && good < 3; round++ {
		if !settle() {
			return Unclear
		}
		switch v = asleep(threads); v {
		case Dead:
			good++
		case Alive:
			good = 0 // a timer that was stopped stays for its time
		case Unclear:
			return v
		}
	}
	return v
}

// settle waits until the runtime has nothing to do but what this thread does. While this
// thread sleeps in a system call its P is given to another. That has happened when a
// goroutine that waited for a timer has run: then there was a thread that looked for
// more to run, at all timers, and that waits in epoll if there is one.
func settle() bool {
	var ran atomic.Bool
	own.Go(func() {
		time.Sleep(5 * time.Millisecond)
		ran.Store(true)
	})
	for range 20 {
		doze(30 * time.Millisecond)
		if ran.Load() {
			return true
		}
	}
	return false
}

// doze sleeps in a system call.
func doze(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}

// asleep returns Dead if all threads but those given sleep as threads of the runtime do
// that have nothing to do, and Alive if one waits for something.
func asleep(but []int) Verdict {
	f, err := os.Open("/proc/self/task")
	if err != nil {
		return Unclear
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return Unclear
	}
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			return Unclear
		}
		if slices.Contains(but, tid) {
			continue
		}
		call, ok := threadCall(tid)
		for tries := 0; !ok; tries++ {
			// The runtime's monitor wakes again and again, and may have to wait for a core.
			if tries == 100 {
				return Unclear
			}
			doze(time.Millisecond)
			call, ok = threadCall(tid)
		}
		switch call {
		case unix.SYS_FUTEX:
		case unix.SYS_NANOSLEEP: // the runtime's monitor
		default:
			return Alive
		}
	}
	return Dead
}

// threadCall returns which system call a thread is in; not ok if it is in none.
func threadCall(tid int) (call int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
	if err != nil {
		return 0, false
	}
	number, _, _ := bytes.Cut(text, []byte(" "))
	call, err = strconv.Atoi(string(number))
	return call, err == nil && call >= 0
}
