// Package native sees every goroutine many times a second without stopping the
// program, on linux/amd64 and linux/arm64 with Go 1.25 to 1.27. All unsafe code
// of the profiler's sampling is here.
//
// # How it works
//
// One thread waits in a system call, so it holds no P (tick.go). A timer sends it a
// signal at the first tick; the handler (handler.go) stays on it and takes the
// others too, whatever the scheduler is doing. Goroutines that do not run are read where they lie
// (visit.go): status, wait reason, and return addresses along the frame pointers
// of their stacks (walk.go); where assembly uses that register for something else, the
// tables for tracebacks tell the way (unwind.go). For each P that runs a goroutine the handler sends
// a signal to its thread, which records that goroutine from its own registers. All
// records go to a ring outside the Go heap (shared.go); an ordinary goroutine
// empties it (drain.go), puts stacks together (stacks.go, leaf.go, functab.go) and
// hands samples on. What that may cost is kept within bounds (budget.go): goroutines
// that run are seen at every tick, the others in turns (turns.go).
//
// A goroutine that waits and has not run since its last visit is not walked
// again, and that is exact: the collector stamps g.waitsince on every goroutine
// that it finds waiting, once a cycle, and the scheduler clears it when the goroutine
// runs. So the same stamp that is not zero says that it has not.
//
// # What is read
//
//   - runtime.g, m and p, at offsets from a generated table (layout.go). A g and a P are
//     never freed; an M is followed only as long as a P has it, or from its
//     own thread.
//   - The lists of all g and P, found by what is in them (find.go), copied and
//     kept up to date by the drain (roster.go).
//   - Goroutine stacks and system stacks, between the bounds that the g has.
//   - runtime.moduledata and the tables it leads to, for inlined calls and for
//     the size of frames (functab.go, unwind.go).
//   - pprof labels, from the goroutine (labels.go).
//
// # Why it cannot fault
//
// The handler reads only memory that the runtime does not unmap (refuse.go): g, m and P lie in
// the Go heap, and so do goroutine stacks. What a racing read can get is a stale
// word. A frame pointer from a stack is followed only within the stack's bounds and
// upward. The tables for tracebacks are part of the program. Everything else goes through process_vm_readv, by which the kernel
// says no where nothing is mapped: the search at Start, new entries of the lists, and
// labels, as other packages may have put something else there. The function tables are
// read plainly, by ordinary goroutines only: there a fault becomes an error, of
// Start or of the session (debug.SetPanicOnFault).
//
// # What is checked
//
// At Start (verify.go): the Go version; the caller's own goid, stack, status, thread and
// P against public calls; the function tables against runtime.FuncForPC; then, through
// the whole of the source, that a goroutine that waits and one that runs read as what
// runtime.Callers said there, with creator and labels.
//
// Before the first tick (verify_offsets.go): what a system call saves of a goroutine, the counts of stops and of
// system calls, the note of a preemption signal around a real one, and where a thread calls the vDSO from.
//
// In the course of a session (losses.go): that the signal still has our handler, and that
// the kernel still does the system calls. A signal that was set to be ignored or to its default is taken back and
// counted; with another handler, or a system call refused, the session ends with an error.
//
// At each walk of a goroutine that does not run: that it did not run meanwhile (visit.go
// lists how that shows). At each stack: that all PCs are in functions and the last is
// where stacks begin. What fails is counted as torn and dropped.
//
// With -race a quarter of the walks can fail so: the race detector's own code is C.
//
// # What falls back
//
// Start returns an error, and the portable source takes over, for another Go
// version, architecture or system; where a system call is refused
// (process_vm_readv, timer_create, timer_settime, rt_tgsigqueueinfo); where the
// signal is blocked or has a handler that is not Go's; without /proc; where the runtime
// unmaps stacks (GODEBUG efence, harddecommit); with -race and atomic coverage counters in
// this package; where Start takes too long (patience.go); whenever the
// self-check finds a difference; and under a tracer that stops the program at every system
// call, such as strace -f, where labels take longer to read than a walk may last.
//
// # What is tested where
//
// The tests run on linux/amd64. On linux/arm64 they run under qemu-user, which has
// neither process_vm_readv nor seccomp and delivers signals between the blocks of code
// that it translates. So what cannot run there are the programs of testdata: other ways
// of building, cgo, foreign handlers, refused system calls, exec, other profilers
// (TestBuilds, TestPrograms, TestFallsBack, TestCgo), and comparisons with the CPU clock,
// with programs that tick, and with fgprof in a crowd, where it does not keep its rate
// (TestAgreesWithPprof, TestNoLockstep, TestAgreesWithFgprof/crowd).
//
// # What it leaves to others
//
// The signal is SIGURG, the runtime's own for preemption (signal.go says why); what is
// not ours of it goes to Go's handler, so preemption and os/signal work as ever. The kernel restarts system calls that a signal
// interrupts, but for those that it never restarts (epoll_wait, nanosleep and
// the like); goroutines in system calls are not interrupted, save in the moment of entering
// one, as by the runtime's own preemption.
package native
