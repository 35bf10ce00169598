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
	{unix.SYS_CLOCK_GETTIME, "clock_gettime", "the CPU time that sampling takes"},
	{unix.SYS_FALLOCATE, "fallocate", "room for the journal"},
	{unix.SYS_FLOCK, "flock", "the journal is in use"},
	{unix.SYS_FSYNC, "fsync", "PROFILE_SYNC"},
	{unix.SYS_FTRUNCATE, "ftruncate", "the end of the file"},
	{unix.SYS_GETDENTS64, "getdents64", "how many threads there are, what they do"},
	{unix.SYS_LSEEK, "lseek", "the file's header is written last"},
	{unix.SYS_PREAD64, "pread64", "the executable's build ID"},
	{unix.SYS_PWRITE64, "pwrite64", "the file and the journal"},
	{unix.SYS_READLINKAT, "readlinkat", "the executable's path"},
	{unix.SYS_UNAME, "uname", "the host's name"},
	{unix.SYS_UNLINKAT, "unlinkat", "the journal of a whole file, old files of a rotation"},
}...)

// Native are the calls that the native source makes besides.
var Native = []Call{
	{unix.SYS_GETPPID, "getppid", "how long a system call takes"},
	{unix.SYS_PROCESS_VM_READV, "process_vm_readv", "read what may not be mapped, of the program itself"},
	{unix.SYS_RT_TGSIGQUEUEINFO, "rt_tgsigqueueinfo", "interrupt threads that run goroutines"},
	{unix.SYS_SCHED_GETATTR, "sched_getattr", "give the tick's thread its core soon"},
	{unix.SYS_SCHED_SETATTR, "sched_setattr", "the same"},
	{unix.SYS_TIMER_CREATE, "timer_create", "the first tick"},
	{unix.SYS_TIMER_DELETE, "timer_delete", ""},
	{unix.SYS_TIMER_SETTIME, "timer_settime", ""},
}
