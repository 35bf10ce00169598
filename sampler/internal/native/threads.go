//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// If the system refuses a Go program a new thread, the runtime ends the program. A session
// makes the runtime start threads: the tick thread, and others because the session's
// goroutines run. So Start first tests whether there is room for more threads. There are many
// limits: pids.max of the cgroup and its parents, RLIMIT_NPROC for all processes of the user,
// and the kernel's own. The only test of all limits is to start threads. So the test starts
// them all at the same time. They run no Go code and end at once.

// Threads is the number of threads that a session may make the runtime start.
const Threads = 4

// Room returns an error if the program cannot have n more threads now. Other programs may
// use up the room right after that.
func Room(n int) error {
	if err := roomInRuntime(n); err != nil {
		return err
	}
	return roomInSystem(n)
}

var readingLimit sync.Mutex

// maxThreads returns the limit of debug.SetMaxThreads. It can only be read by setting another one,
// so for a moment there is no limit. A second caller would take that for the limit, hence the
// mutex. If the program sets a limit in that moment, that one stays.
func maxThreads() int {
	readingLimit.Lock()
	defer readingLimit.Unlock()
	const none = 1<<31 - 1
	limit := debug.SetMaxThreads(none)
	if now := debug.SetMaxThreads(limit); now != none {
		debug.SetMaxThreads(now)
		return now
	}
	return limit
}

// roomInRuntime compares the number of threads with the limit of debug.SetMaxThreads.
func roomInRuntime(n int) error {
	limit := maxThreads()
	tasks, err := taskNames(limit + 1) // there is no other way to count the threads
	if err == nil && len(tasks)+n > limit {
		return fmt.Errorf("the program has %d threads and debug.SetMaxThreads allows %d, which leaves no room for %d more", len(tasks), limit, n)
	}
	return nil
}

// tasks is the memory that the test threads share with the thread that starts them, outside
// the Go heap. They do not use their stack, but clone requires one.
type tasks struct {
	gate  uint32    // a futex: the threads end once it is not 0
	left  uint32    // not used
	limit [2]uint64 // timespec: the threads end after that time in any case
	alive [16]uint32
	stack [512]byte
}

// roomInSystem starts n threads, n <= 16, that only wait at the gate and end.
func roomInSystem(n int) error {
	m, err := mem.Map(unsafe.Sizeof(tasks{}))
	if err != nil {
		return err
	}
	base := m.Addr()
	t := *(**tasks)(unsafe.Pointer(&base))
	t.limit[0] = 1
	const flags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD | unix.CLONE_CHILD_CLEARTID

	// The threads must not run the program's signal handlers, because the runtime does not know
	// them. They inherit the signal mask of this thread, so block all signals.
	runtime.LockOSThread()
	every, old := ^uint64(0), uint64(0)
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&every)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if e != 0 {
		runtime.UnlockOSThread()
		unix.Munmap(m)
		return fmt.Errorf("rt_sigprocmask: %w", e)
	}
	started, refused := 0, unix.Errno(0)
	for ; started < n && refused == 0; started++ {
		word := uintptr(unsafe.Pointer(&t.alive[started]))
		mem.Store32(word, 1)
		if r := spawn(flags, uintptr(unsafe.Pointer(&t.stack))+uintptr(len(t.stack)), word, base); r > mem.ErrnoFloor {
			refused = unix.Errno(-r)
			mem.Store32(word, 0)
			break
		}
	}
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	runtime.UnlockOSThread()

	mem.StoreRelease(base, 1) // gate
	unix.RawSyscall6(unix.SYS_FUTEX, base, futexWake|futexPrivate, uintptr(n), 0, 0, 0)
	ended := within(stopLimit, func() bool {
		for i := range started {
			if mem.Load32(uintptr(unsafe.Pointer(&t.alive[i]))) != 0 { // the kernel clears it at the end
				return false
			}
		}
		return true
	})
	if ended {
		unix.Munmap(m)
	}
	if refused != 0 {
		return fmt.Errorf("the system allows only %d more threads, and a session needs up to %d (pids.max, RLIMIT_NPROC): clone: %w", started, n, refused)
	}
	return nil
}

// spawn calls clone. The new thread waits for the futex at tasks, no longer than the limit
// there, and ends. spawn returns the kernel's result.
func spawn(flags, stack, word, tasks uintptr) uintptr

// refuse returns an error if the source cannot run in this program for a reason that is known
// before any memory of the runtime is read.
func refuse() error {
	if instrumented() {
		return errors.New("with -race the coverage counters of this package call the race detector, and a signal handler must not call it")
	}
	for _, name := range []string{"efence", "harddecommit"} {
		// With either of them the runtime unmaps unused memory. Reading a stack while its
		// goroutine ends would fault.
		if v := goruntime.GoDebug(name, goruntime.StartEnvironment()); v > 0 || name == "efence" && v != 0 {
			return fmt.Errorf("with GODEBUG=%s=%d the runtime unmaps stacks", name, v)
		}
	}
	return nil
}
