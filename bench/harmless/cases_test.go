//go:build linux && (amd64 || arm64)

package harmless

import "time"

// A harmCase is one row of docs/harm.md. To add one, add the program's code to testdata/cases, or
// to testdata/ccases if it needs C, add a row here, and run
// `go test -tags peers ./bench/harmless -run TestPeerHarmTable -update`.
type harmCase struct {
	what string // the first column
	name string // the program's arguments, separated by spaces
	c    bool   // the program is testdata/ccases
	env  []string
	// flags are for go build; nil for the program that most cases share.
	flags []string
	racy  bool // the program may end before there is a profile
	long  bool // for TestPeerHarmTable alone: another case ends in nearly the same way, or it takes long
	night bool // the program has a standard library of its own
}

// endsWithin is the time after which a program counts as one that does not end.
const endsWithin = 2 * time.Minute

// A harmSection is a table of docs/harm.md.
type harmSection struct {
	heading, text string
	cases         []harmCase
}

// budget50 lets a session take as many ticks as the rate says, on a machine that has time for them.
var budget50 = []string{"PROFILE_BUDGET=50"}

// ends is the heading of the first table.
const ends = "Ways to end"

var harmSections = []harmSection{
	{ends, "The session starts with `defer profiler.Start().Stop()`. Other goroutines of the program run and wait at the same time.", []harmCase{
		{what: "main returns", name: "returns"},
		{what: "`os.Exit(0)`", name: "exits 0", long: true},
		{what: "`os.Exit(3)`", name: "exits 3"},
		{what: "`os.Exit(3)` in another goroutine", name: "exits from a goroutine", long: true},
		{what: "`os.Exit(3)` while Start runs", name: "exits while Start runs", racy: true, long: true},
		{what: "panic", name: "panics"},
		{what: "panic in another goroutine", name: "panics in a goroutine", long: true},
		{what: "panic, recovered", name: "recovers"},
		{what: "panic with `GOTRACEBACK=crash`", name: "crash"},
		{what: "`log.Fatal`", name: "log.Fatal", long: true},
		{what: "nil pointer", name: "nil"},
		{what: "10,000 nil pointers, recovered", name: "nil recovered"},
		{what: "stack overflow", name: "stack overflow"},
		{what: "concurrent map writes", name: "concurrent map writes"},
		{what: "unlock of an unlocked mutex", name: "unlock of unlocked mutex"},
		{what: "out of memory (`RLIMIT_AS`)", name: "out of memory"},
		{what: "1.3 GB allocated below `debug.SetMemoryLimit(32 MB)`", name: "memory limit", long: true},
		{what: "SIGTERM", name: "SIGTERM"},
		{what: "SIGINT", name: "SIGINT", long: true},
		{what: "SIGHUP", name: "SIGHUP", long: true},
		{what: "SIGQUIT", name: "SIGQUIT"},
		{what: "SIGABRT", name: "SIGABRT"},
		{what: "SIGSEGV from `kill`", name: "SIGSEGV"},
		{what: "SIGKILL", name: "SIGKILL"},
		{what: "standard output is a pipe without a reader", name: "SIGPIPE"},
		{what: "`runtime.Goexit` in main, then `os.Exit(3)`", name: "Goexit, then exits"},
		{what: "`runtime.Goexit` in main, which runs Stop; there are no other goroutines", name: "alone Goexit"},
		{what: "deadlock: `select {}`", name: "alone deadlock", long: true},
		{what: "deadlock: a mutex locked twice", name: "alone deadlock lock", long: true},
		{what: "deadlock: `select {}` with `GOMAXPROCS=1`", name: "alone deadlock", long: true, env: []string{"GOMAXPROCS=1"}},
	}},
	{"Signals", "", []harmCase{
		{what: "a program that handles SIGTERM and exits with code 7", name: "ends at SIGTERM"},
		{what: "2,000 signals that the program ignores", name: "ignores signals"},
		{what: "1,500 signals of 15 kinds, one after the other", name: "storm"},
		{what: "10,000 signals with a handler in C", name: "handler", c: true},
		{what: "SIGURG has a handler in C before Start", name: "own SIGURG", c: true},
		{what: "C sets SIGURG to its default during a session", name: "own SIGURG default", c: true},
		{what: "C sets SIGURG to ignored during a session", name: "own SIGURG ignored", c: true},
		{what: "C gives SIGURG a handler during a session", name: "own SIGURG replaced", c: true},
	}},
	{"Processes and threads", "", []harmCase{
		{what: "100 children of `os/exec`", name: "children"},
		{what: "30 children killed by SIGTERM", name: "killed children"},
		{what: "30 children of C's `system`", name: "children", c: true},
		{what: "a program that executes itself ten times, each time in a session", name: "execs", long: true},
		{what: "100 calls of setuid and setgid", name: "setuid"},
		{what: "100 calls of `syscall.AllThreadsSyscall`", name: "all threads"},
		{what: "100 threads that end with their goroutines", name: "locked threads"},
		{what: "100 changes of GOMAXPROCS", name: "GOMAXPROCS"},
		{what: "`debug.SetMaxThreads` allows one more thread at Start", name: "own few threads"},
	}},
	{"The runtime", "", []harmCase{
		{what: "50 collections while stacks grow and shrink", name: "collections"},
		{what: "50 collections with `GODEBUG=gccheckmark=1`", name: "collections", env: []string{"GODEBUG=gccheckmark=1"}},
		{what: "50 collections with `GODEBUG=asyncpreemptoff=1`", name: "collections", env: []string{"GODEBUG=asyncpreemptoff=1"}},
		{what: "50 collections with `GODEBUG=gcshrinkstackoff=1,asyncpreemptoff=1`", name: "collections", env: []string{"GODEBUG=gcshrinkstackoff=1,asyncpreemptoff=1"}},
		{what: "50 collections with `GODEBUG=efence=1`", name: "collections", env: []string{"GODEBUG=efence=1"}},
		{what: "50 collections with `GODEBUG=harddecommit=1`", name: "collections", env: []string{"GODEBUG=harddecommit=1"}},
		{what: "50 collections, built with `-asan`", name: "collections", flags: []string{"-asan"}},
		{what: "50 collections, built with `-race -cover -covermode=atomic -coverpkg=all`", name: "collections", flags: []string{"-race", "-cover", "-covermode=atomic", "-coverpkg=all"}, night: true},
		{what: "`runtime/pprof` and `runtime/trace` at the same time", name: "other profilers"},
		{what: "100,000 goroutines that wait for half a second", name: "crowd", long: true},
		{what: "five reads of empty pipes with `syscall.RawSyscall`, each for 100 ms", name: "raw reads"},
		{what: "300 TCP connections", name: "network"},
		{what: "sleeps and deadlines", name: "time"},
		{what: "a `testing/synctest` bubble", name: "bubble"},
		{what: "Start in a `testing/synctest` bubble", name: "own starts in a bubble"},
		{what: "30 sessions, one after the other", name: "own sessions", long: true},
	}},
	{"Frame pointers", "Go's own frame pointer tracebacks have crashed in such programs, or could. They run while the collector shrinks stacks.", []harmCase{
		{what: "panics through 300 deferred functions that recover, wait and panic", name: "frames defers", env: budget50},
		{what: "recovered panics whose deferred functions wait", name: "frames recovers", env: budget50},
		{what: "nil pointers in copies of 256 bytes, recovered by functions that wait", name: "frames duffcopy", env: budget50},
		{what: "`runtime.Goexit` in deferred functions", name: "frames goexits", env: budget50},
		{what: "`reflect.Value.Call` and `reflect.MakeFunc` with frames of 16 kB", name: "frames reflect", env: budget50},
		{what: "new stacks that grow to 1 MB", name: "frames grows", env: budget50},
		{what: "assembly with other values in the frame pointer register", name: "frames assembly", env: budget50},
		{what: "loops that only signals preempt", name: "frames preempts", env: budget50},
		{what: "C code with other values in the frame pointer register that calls Go, which grows its stack", name: "frames callbacks", c: true, env: budget50},
	}},
	{"C", "In the tables above, only the programs with C code are built with cgo.", []harmCase{
		{what: "40,000 calls of Go from threads of C", name: "callbacks", c: true},
		{what: "C's `exit(3)`, with `atexit`", name: "exits", c: true},
		{what: "C's `abort`", name: "aborts", c: true},
		{what: "an invalid pointer in C", name: "faults", c: true},
	}},
	{"Refused system calls", "seccomp makes each of them fail with EPERM.", []harmCase{
		{what: "timer_create", name: "own no timer_create"},
		{what: "timer_settime", name: "own no timer_settime"},
		{what: "clock_gettime", name: "own no clock_gettime"},
		{what: "rt_tgsigqueueinfo", name: "own no rt_tgsigqueueinfo"},
		{what: "process_vm_readv", name: "own no process_vm_readv"},
		{what: "rt_tgsigqueueinfo, from a moment during the session", name: "own late no rt_tgsigqueueinfo"},
		{what: "process_vm_readv, from a moment during the session", name: "own late no process_vm_readv"},
	}},
}
