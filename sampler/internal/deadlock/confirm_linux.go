package deadlock

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/own"
)

// Possible reports whether the runtime would report a deadlock of this program, and whether
// Confirm works here. It knows C code by its calls: programs with C code have made one before
// main begins.
func Possible() bool {
	if runtime.NumCgoCall() > 0 {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", unix.Gettid()))
	return err == nil
}

// Confirm finds out whether no thread of the program runs and no timer is set, besides the caller's
// thread. The caller must have no timer of its own set, and must check that all
// goroutines are stuck, before and after. Confirm takes some 100 ms, with GOMAXPROCS=1 some
// 200 ms, most of it asleep.
func Confirm() Verdict {
	if runtime.NumCgoCall() > 0 {
		return Alive
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self := unix.Gettid()

	// A thread that waits for a timer needs a P when the timer is due. Without a free P it sleeps
	// on a futex, like a thread that has nothing to do. Such a P may be in use for a moment, hence
	// several rounds. With GOMAXPROCS=1 this thread has the only P during asleep. So a timer that
	// comes due then is not seen. But that thread gets the P while this one dozes, and waits in
	// epoll again if there is another timer. A program cannot have a timer come due in each of many
	// rounds, unless it hardly sleeps.
	want := 3
	if runtime.GOMAXPROCS(0) == 1 {
		want = 6
	}
	good := 0
	for round := 0; round < 4*want && good < want; round++ {
		if !settle() {
			return Unclear
		}
		switch v := asleep(self); v {
		case Dead:
			good++
		case Alive:
			good = 0 // try again: a stopped timer keeps a thread waiting until its time
		case Unclear:
			return v
		}
	}
	if good < want {
		return Alive
	}
	return Dead
}

// settle waits until the runtime has nothing to run besides this thread. While this thread sleeps
// in a system call, the runtime gives its P to another thread. settle sees that by a goroutine
// that sleeps for 5 ms and then runs. After that, the other thread looks for more to run, checks
// all timers, and waits in epoll if one is set. settle returns false if that takes too long.
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

// doze sleeps in a system call, without a timer of the runtime.
func doze(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}

// asleep returns Dead if all threads except self sleep in the way of idle threads of the
// runtime, and Alive if one waits for something.
func asleep(self int) Verdict {
	f, err := os.Open("/proc/self/task")
	if err != nil {
		return Unclear
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return Unclear
	}
	for i, name := range names {
		if i == 1 {
			// The runtime's monitor (sysmon): the kernel lists threads in the order in which they
			// began, and it is the first one that the runtime starts. It never runs a goroutine,
			// and it wakes up so often that it seems to run all the time.
			continue
		}
		tid, err := strconv.Atoi(name)
		if err != nil {
			return Unclear
		}
		if tid == self {
			continue
		}
		call, ok := threadCall(tid)
		for tries := 0; !ok; tries++ {
			// It may have to wait for a core before it goes to sleep.
			if tries == 100 {
				return Unclear
			}
			doze(time.Millisecond)
			call, ok = threadCall(tid)
		}
		if call != unix.SYS_FUTEX {
			return Alive
		}
	}
	return Dead
}

// threadCall returns the number of the system call that a thread is in. ok is false if it is in
// none.
func threadCall(tid int) (call int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
	if err != nil {
		return 0, false
	}
	number, _, _ := bytes.Cut(text, []byte(" "))
	call, err = strconv.Atoi(string(number))
	return call, err == nil && call >= 0
}
