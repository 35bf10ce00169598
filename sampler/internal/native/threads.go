//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where the system gives a Go program no further thread the runtime ends it. A session
// makes the runtime start some: one that ticks, and others since its goroutines run. So
// it is tried first whether there is room. What limits it is many things: pids.max of
// the cgroup and of those around it, RLIMIT_NPROC over all processes of the user, the
// kernel's own bounds. Only to start threads asks them all, so that is done: with no
// runtime in them, and at the same time, and they end at once.

// Threads is how many more threads a session may make the runtime start.
const Threads = 4

// Room returns an error if the program may not have n more threads now. What others
// start in the moment after is not known.
func Room(n int) error {
	if err := roomInRuntime(n); err != nil {
		return err
	}
	return roomInSystem(n)
}

// roomInRuntime compares with what debug.SetMaxThreads says, which can only be read by
// setting it; for that moment the limit is none.
func roomInRuntime(n int) error {
	limit := debug.SetMaxThreads(1<<31 - 1)
	debug.SetMaxThreads(limit)
	f, err := os.Open("/proc/self/task")
	if err != nil {
		return nil // the runtime's own count is not to be had
	}
	defer f.Close()
	tasks, err := f.Readdirnames(limit + 1)
	if err == nil && len(tasks)+n > limit {
		return fmt.Errorf("the program has %d threads and debug.SetMaxThreads allows %d, which leaves no room for %d more", len(tasks), limit, n)
	}
	return nil
}

// tasks is what the threads that are tried share with the one that starts them, outside
// the Go heap. They use no stack, but the kernel wants one for each.
type tasks struct {
	gate  uint32    // a futex: they end once it is not 0
	left  uint32    // not used
	limit [2]uint64 // timespec: they end then in any case
	alive [16]uint32
	stack [512]byte
}

// roomInSystem starts n threads, n <= 16, that do no more than wait for one another.
func roomInSystem(n int) error {
	m, err := mapMemory(unsafe.Sizeof(tasks{}))
	if err != nil {
		return err
	}
	base := m.addr()
	t := *(**tasks)(unsafe.Pointer(&base))
	t.limit[0] = 1
	const flags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD | unix.CLONE_CHILD_CLEARTID

	// They would run the program's signal handlers without the runtime's data of a
	// thread. As all that a thread has, they inherit what it blocks.
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
		store32(word, 1)
		if r := spawn(flags, uintptr(unsafe.Pointer(&t.stack))+uintptr(len(t.stack)), word, base); r > errnoFloor {
			refused = unix.Errno(-r)
			store32(word, 0)
			break
		}
	}
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	runtime.UnlockOSThread()

	storeRelease(base, 1) // gate
	unix.RawSyscall6(unix.SYS_FUTEX, base, futexWake|futexPrivate, uintptr(n), 0, 0, 0)
	ended := within(stopLimit, func() bool {
		for i := range started {
			if load32(uintptr(unsafe.Pointer(&t.alive[i]))) != 0 { // the kernel clears it at the end
				return false
			}
		}
		return true
	})
	if ended {
		unix.Munmap(m)
	}
	if refused != 0 {
		return fmt.Errorf("the system gives the program %d more threads, and a session needs up to %d (pids.max, RLIMIT_NPROC): clone: %w", started, n, refused)
	}
	return nil
}

// spawn is clone for a thread that waits for the futex at tasks, but no longer than
// tasks says, and ends. It returns what the kernel does.
func spawn(flags, stack, word, tasks uintptr) uintptr
