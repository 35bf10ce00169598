// Package native sees every goroutine many times a second without stopping the
// program, on linux/amd64 and linux/arm64 with Go 1.25 to 1.27. Memory that is
// not the profiler's is read through package mem.
//
// # How it works
//
// One thread waits in a system call, so it holds no P (tick.go). A timer sends it a
// signal at the first tick. The handler (handler.go) stays on that thread and takes
// the other ticks too, independently of the scheduler. It visits goroutines that do
// not run and reads their memory in place (visit.go): status, wait reason, and the
// return addresses along the frame pointers of their stacks (package goruntime). Where assembly
// uses the frame pointer register for something else, the handler uses the tables for
// tracebacks (walk.go). For each P that runs a goroutine the handler sends a signal
// to the P's thread, which records that goroutine from its own registers.
//
// All records go to a ring outside the Go heap (ring.go). An ordinary goroutine, the drain, empties
// the ring (drain.go), builds stacks (stacks.go) and passes samples on. The budget bounds the cost
// (package cost): ticks come as often as it allows, up to the rate asked for, and less often while
// the program is idle (pace.go). Running goroutines are sampled at every tick, the others when they
// have moved or have rested for a while (turns.go).
//
// Ticks say where goroutines are, CPU timers where cores go (cputimer.go, account.go). Each thread
// that runs goroutines has a timer on its own CPU clock, whose signal visits the thread while it
// uses a core. A visit stands for the CPU time since the thread's visit before. Its goroutine is
// given that time (active.go); if it has ended, a later one of the same go statement is. So a
// goroutine that runs for Go, but whose thread has no core, shows as such; if it runs too shortly
// to be found at it, what all of its go statement are found running, without their CPU time, says
// so (package nocore). The runtime's goroutines have samples of their CPU time. CPU time that no
// goroutine used is on pseudo threads: the scheduler's, with its stacks, that of C threads, that of
// goroutines which are not known, and the profiler's own (account.go). All samples on the CPU add
// up to what getrusage says.
//
// All time of goroutines is accounted for too: each tick reads how many there are, and what the
// samples lack of the integral of that number counts as not seen (census.go, goroutine.go).
//
// A waiting goroutine that has not run since its last visit is not walked again. This
// is exact: once a cycle, the collector stamps g.waitsince on every goroutine that it
// finds waiting, and the scheduler clears the stamp when the goroutine runs. So an
// unchanged stamp other than zero means that the goroutine has not run.
//
// # What is read
//
//   - runtime.g, m and p, at offsets from a generated table (package goruntime). The runtime
//     never frees a g or a P. An M is read only while a P has it, or on its own thread.
//   - The lists of all gs and all Ps. Start finds them by their contents. Each tick copies
//     the new gs (census.go), the drain the Ps (roster.go).
//   - The counters of goroutines in runtime.sched and in the Ps, at each tick. Start finds
//     runtime.sched by its contents too (setup.go).
//   - The number of timers of each P, to find deadlocks of the program (standstill.go).
//   - Goroutine stacks and system stacks, within the bounds in their g.
//   - runtime.moduledata and the tables that it points to, for inlined calls and for frame sizes
//     (goruntime.FuncTable). That includes those of plugins and of just-in-time compilers.
//   - pprof labels, from the goroutine (head.go).
//   - g.waiting and the runtime.sudog there, for what the goroutine waits for (objects.go). The
//     drain has package objects give them numbers (objectlist.go) and reads a channel's capacity.
//   - Of a goroutine in [IO wait], the runtime.pollDesc whose address is on its stack
//     (objects.go). The drain asks the kernel what the descriptor is (objectlist.go): getsockname,
//     getpeername, getsockopt, readlink.
//
// # Why it cannot fault
//
// The handler reads only memory that the runtime does not unmap (threads.go): g, m, P, sudog and
// goroutine stacks are in the Go heap. A read that races with the program gets a stale word at
// worst. A frame pointer from a stack is followed only upward and within the stack's bounds. The
// tables for tracebacks are part of the program. An address of a pollDesc from a stack is followed
// only into pages that have pollDescs, which are not unmapped either.
//
// All other reads go through process_vm_readv, which returns an error for unmapped
// memory: the search at Start, new entries of the lists, and labels, because other
// packages may have set something else there. Ordinary goroutines read the function
// tables with plain loads. A fault there becomes an error of Start or of the session
// (debug.SetPanicOnFault).
//
// # What is checked
//
// At Start (verify.go): the Go version; the goid, stack, status, thread and P of the calling
// goroutine, compared with public calls; the function tables, compared with runtime.FuncForPC. Then
// the whole source samples a waiting goroutine and Start's own, which runs. Their stacks must equal
// those that runtime.Callers returned there, and creator and labels must be right. Start keeps its
// turn beside goroutines that need all cores (own.Turn). Whoever gives up its P there may wait
// until all others have had a time slice. So Start and Stop wait for few goroutines, and for what
// threads do without a P they wait with theirs (within). Stop takes the drain's place if that waits
// for its next pass (endWaits).
//
// Before the first tick (verify_offsets.go): the PC, SP and BP that a system call saves in the g,
// the counts of stops, of system calls and of timers, and m.signalPending before and after a real
// preemption signal. After these, where a
// goroutine that waits for a pipe has its pollDesc (verify_objects.go): if that is not found, the
// session does without, and says so. A later Start in the process relies on this, and on the
// variables that the first one has found.
//
// During a session (passes.go): that the signal still has our handler, and that the kernel
// still accepts the system calls. If the program has set the signal to be ignored or to its
// default, our handler is set again and the event is counted. If the signal has another
// handler, or the kernel refuses a system call, the session ends with an error.
//
// At each walk of a goroutine that does not run: that it did not run during the walk (stopped.go
// lists the conditions). At each stack: that all PCs are in functions and that the outermost one is
// in a function with which stacks begin. A stack that fails is dropped and counted as torn. A
// goroutine that runs has a sample nevertheless, as one in code that Go has no tables for, or on a
// thread that blocks the signal (complete.go). A coroutine can run without a trace in its g, so its
// stack is walked many times (stopped.go).
//
// With -race up to a quarter of the walks can fail, because the race detector is C code.
//
// # What falls back
//
// Start returns an error, and the portable source takes over, in these cases:
//
//   - The Go version, architecture or system is another one.
//   - The kernel refuses a system call (process_vm_readv, timer_create, timer_settime,
//     rt_tgsigqueueinfo), or there is no /proc.
//   - The signal is blocked or has a handler that is not Go's.
//   - The runtime unmaps stacks (GODEBUG efence, harddecommit).
//   - The program is built with -race and with atomic coverage counters in the packages whose code
//     the handler runs.
//   - Start takes too long (package cost).
//   - The self-check finds a difference.
//   - A tracer stops the program at every system call, such as strace -f. Then reading labels
//     takes longer than a walk may take.
//
// # What is tested where
//
// The tests run on linux/amd64. On linux/arm64 they run under qemu-user. That has neither
// process_vm_readv nor seccomp, and it delivers signals only between the blocks of code that it
// translates. So two kinds of tests do not run there. They call testenv.NotEmulated with the
// reason. One kind starts programs of testdata: other build modes, cgo, foreign handlers, refused
// system calls, exec, other profilers. The helper that builds these programs makes the call. The
// other kind compares with the CPU clock, with programs that tick, or with fgprof among many
// goroutines, where it does not keep its rate.
//
// # Effects on the program
//
// The signal is SIGURG, which the runtime uses for preemption (signal.go gives the reasons).
// The handler passes all other SIGURG signals on to Go's handler, so preemption and os/signal
// work as before. The kernel restarts interrupted system calls, except those that it never
// restarts (epoll_wait, nanosleep and others). Goroutines in system calls are not interrupted,
// except at the moment when they enter one, as by the runtime's own preemption.
//
// # Files
//
// Who runs the code decides what it may do. In each group, and from group to group, nearly all
// files use only those after them.
//
// The session, on ordinary goroutines:
//
//   - start.go, setup.go: Start and Stop; what Start makes and Stop gives back
//   - verify_offsets.go, verify.go, verify_objects.go: the checks of Start
//   - loop.go: the loop of the drain's goroutine, how it waits for the next pass, and visits to all
//     goroutines that somebody asks for
//   - passes.go: a pass, what it tells the handler, and what it checks before
//   - standstill.go: deadlocks of the program
//   - native.go: Source
//   - threads.go, race_off.go, race_on.go: whether the program can have more threads, before Start,
//     and programs in which Start does not try
//
// The drain, one ordinary goroutine:
//
//   - drain.go: records of the ring become samples
//   - objectlist.go: what goroutines wait for, and what a descriptor is
//   - active.go: which goroutine is given CPU time
//   - goroutine.go: the state of the drain, what it knows of a goroutine, how often that stops, and
//     time of goroutines that no sample stands for
//   - account.go: CPU time of the process and of each thread
//   - stacks.go, complete.go, frames.go: from PCs to frames
//
// The signal handler. The rules are before its code:
//
//   - handler.go: what it does; the ticks; its part of the checks of Start
//   - cputimer.go, interrupt.go: threads and running goroutines record themselves
//   - turns.go, circle.go: which goroutines a tick visits
//   - visit.go: the visit of a goroutine that does not run
//   - objects.go, stopped.go: what it waits for, and whether it has run since
//   - walk.go, head.go: stacks and labels
//   - census.go, pace.go: new goroutines, their number, late ticks, and when the next one comes
//   - context_amd64.go, context_arm64.go: the interrupted registers
//
// What all use:
//
//   - tick.go, signal.go: the thread of the ticks, its timer and signal
//   - roster.go: the known goroutines
//   - clock.go: the time without a system call
//   - ring.go: room in the ring
//   - shared.go: the memory that handler and drain share, and who writes which field
//   - set.go: sets of words that the handler looks into
package native
