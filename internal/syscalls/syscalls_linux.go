//go:build amd64 || arm64

// Package syscalls lists the system calls that a session makes on Linux, for those who
// confine programs with seccomp. A policy that refuses one with an error only costs the
// profile, or a part of it. One that kills the program at a call kills it at these.
package syscalls

import "golang.org/x/sys/unix"

// A Call is one system call.
type Call struct {
	Number uintptr
	Name   string
	Why    string
}

// Runtime are the calls of every Go program, with or without a session.
var Runtime = append(machine, []Call{
	{unix.SYS_CLONE, "clone", "start threads"},
	{unix.SYS_CLOSE, "close", ""},
	{unix.SYS_EPOLL_CREATE1, "epoll_create1", ""},
	{unix.SYS_EPOLL_CTL, "epoll_ctl", ""},
	{unix.SYS_EPOLL_PWAIT, "epoll_pwait", ""},
	{unix.SYS_EVENTFD2, "eventfd2", ""},
	{unix.SYS_EXIT, "exit", ""},
	{unix.SYS_EXIT_GROUP, "exit_group", ""},
	{unix.SYS_FCNTL, "fcntl", ""},
	{unix.SYS_FUTEX, "futex", "wait and wake"},
	{unix.SYS_GETPID, "getpid", ""},
	{unix.SYS_GETTID, "gettid", ""},
	{unix.SYS_MADVISE, "madvise", ""},
	{unix.SYS_MMAP, "mmap", ""},
	{unix.SYS_MUNMAP, "munmap", ""},
	{unix.SYS_NANOSLEEP, "nanosleep", ""},
	{unix.SYS_OPENAT, "openat", ""},
	{unix.SYS_PRCTL, "prctl", ""},
	{unix.SYS_READ, "read", ""},
	{unix.SYS_RESTART_SYSCALL, "restart_syscall", "made by the kernel"},
	{unix.SYS_RT_SIGACTION, "rt_sigaction", ""},
	{unix.SYS_RT_SIGPROCMASK, "rt_sigprocmask", ""},
	{unix.SYS_RT_SIGRETURN, "rt_sigreturn", ""},
	{unix.SYS_SCHED_GETAFFINITY, "sched_getaffinity", ""},
	{unix.SYS_SCHED_YIELD, "sched_yield", ""},
	{unix.SYS_SIGALTSTACK, "sigaltstack", ""},
	{unix.SYS_TGKILL, "tgkill", "preempt goroutines"},
	{unix.SYS_WRITE, "write", ""},
}...)

// Session are the calls that a session makes besides, with either source.
var Session = append(fileStatus, []Call{
	{unix.SYS_CLOCK_GETTIME, "clock_gettime", "measure the CPU time of threads, and that sampling takes"},
	{unix.SYS_FALLOCATE, "fallocate", "reserve room for the journal"},
	{unix.SYS_FLOCK, "flock", "lock the journal"},
	{unix.SYS_FSYNC, "fsync", "sync the file, with PROFILE_SYNC"},
	{unix.SYS_FTRUNCATE, "ftruncate", "cut the file to its length"},
	{unix.SYS_GETDENTS64, "getdents64", "list threads and their states"},
	{unix.SYS_LSEEK, "lseek", "write the file's header, which comes last"},
	{unix.SYS_PREAD64, "pread64", "read the executable's build ID and the names of its variables"},
	{unix.SYS_PWRITE64, "pwrite64", "write the journal"},
	{unix.SYS_READLINKAT, "readlinkat", "find the executable"},
	{unix.SYS_UNAME, "uname", "read the host's name"},
	{unix.SYS_UNLINKAT, "unlinkat", "remove the journal of a finished file, and old files of a rotation"},
}...)

// Native are the calls that the native source makes besides.
var Native = []Call{
	{unix.SYS_GETPEERNAME, "getpeername", "name the connection that a goroutine waits for"},
	{unix.SYS_GETPPID, "getppid", "check at Start how the runtime counts system calls"},
	{unix.SYS_GETSOCKNAME, "getsockname", "name what a goroutine in [IO wait] waits for"},
	{unix.SYS_GETSOCKOPT, "getsockopt", "find out whether it is a listener"},
	{unix.SYS_PIPE2, "pipe2", "check at Start where the runtime has descriptors"},
	{unix.SYS_PROCESS_VM_READV, "process_vm_readv", "read memory of the program that may not be mapped"},
	{unix.SYS_RT_TGSIGQUEUEINFO, "rt_tgsigqueueinfo", "interrupt threads that run goroutines"},
	{unix.SYS_SCHED_GETATTR, "sched_getattr", "read the time slice of the tick thread"},
	{unix.SYS_SCHED_SETATTR, "sched_setattr", "set a short time slice, so that the tick thread gets a core sooner"},
	{unix.SYS_TIMER_CREATE, "timer_create", "create the timer for the first tick"},
	{unix.SYS_TIMER_DELETE, "timer_delete", "delete the timers"},
	{unix.SYS_TIMER_SETTIME, "timer_settime", "set the time of the first tick"},
}
