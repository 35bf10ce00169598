// Bench compares the cost of profilers that see waiting goroutines: gotach with its native
// and its portable source, fgprof, and plain tickers that call runtime.GoroutineProfile or
// runtime.Stack. Two more rows are for comparison. runtime/pprof's CPU profile does not see
// waiting goroutines. "timer alone" is a thread that a timer wakes at the same rate and that
// does nothing: its row is the cost of ticks on this machine for any profiler.
//
//	go run ./bench                                  # all rows; about 40 minutes
//	go run ./bench -goroutines 1000 -pairs 3        # some rows
//	go test -run - -bench . ./bench                 # shorter, in the form that benchstat reads
//
// Each row is measured in a separate process, so that profilers do not affect each other. In
// the process, goroutines wait 15 to 20 frames deep. There are two measurements.
//
// The first one has no other load. At each tick the profiler samples all goroutines. gotach has
// a budget of 100 %: it looks at all, and samples those that moved or have not been sampled for
// some time. The rate is low enough for that:
//
//   - tick time: for GoroutineProfile, Stack and fgprof's loop, the median time of the call.
//     The world is stopped for most of that time. For gotach's native source, which does not
//     stop the world, and for the timer alone, the mean CPU time of the thread that ticks,
//     with the kernel's part (only on Linux). The number in brackets is the ratio to
//     GoroutineProfile's tick time. "of 50 %" means that a tick samples half the goroutines.
//   - CPU: CPU time of the whole process per tick, minus the CPU time without a session. It
//     includes wake-ups, draining, encoding and writing.
//   - memory: the most resident memory that the session added. The number in brackets is the
//     additional memory for each goroutine beyond 1,000, compared with 1,000 goroutines.
//
// The second measurement has a load that keeps every core busy. Windows with and without the
// profiler take turns. The profiler has its usual rate. gotach has its default budget of 1 %,
// for which it leaves out most ticks, and in a second row a budget of 10 %. Each window
// begins some time after the session's start and ends before its end, so that start and end are
// not measured:
//
//   - ticks: share of the ticks that the rate asks for. For gotach these are the different
//     times of the samples in its file. If other programs take the cores, the session counts
//     more ticks than that; the progress output shows its own count. fgprof does not count
//     its ticks; each tick stops the world twice, so its ticks are half the stops. The CPU
//     profile ticks in CPU time, and its ticks are its samples.
//   - gap: time from one tick to the next, median and 99th percentile.
//   - slowdown: how much less work the load does than in the two windows without the profiler
//     before and after; the median of all pairs, and the quartiles. If pairs take long, there
//     are fewer: at least five, and no further ones after three seconds times -pairs.
//   - stops: stops of the world per second, without those of garbage collection
//     (/sched/pauses/total/other:seconds).
//   - written: bytes of the file per second of the session.
//
// The load does not allocate, and the program forces garbage collections between windows. A
// collection of a hundred thousand stacks in one of two windows would hide the slowdown.
//
// "fgprof's loop" is a copy of the loop in fgprof.Start with the same rate as the others.
// fgprof itself has a fixed rate and does not report the times of its calls and gaps.
//
// # What a session costs
//
//	go run ./bench -cost                            # 10 to 100,000 goroutines; about 4 minutes
//	go run ./bench -cost -goroutines 0              # an idle server
//
// This measures only gotach, from outside: CPU time of the process and its children (getrusage) in
// windows with and without a session, in turns. In both, each core does the same work, 4 ms of
// every 10 ms, and a tenth of the goroutines (5 to 1,000) wakes up ten times a second. The others
// wait. The cost is the median difference of a pair, as a share of all cores; the interval has the
// true median with a probability of 95 %. "Beside the load" is the same without the CPU time of the
// load's own work, which changes with the machine's speed. The idle server is one of net/http with
// 50 open connections and without requests; its cost is a share of one core. Beside the cost are
// the session's own figure, its ticks, and the time from one tick to the next. Start and Stop are
// not within the windows; the last column has their CPU time.
//
// # How long requests take
//
//	go run ./bench -latency -pairs 10 -window 5s    # about 12 minutes
//
// This measures what a profiler does to the requests of an HTTP server at half load: each request
// computes for 1 ms and waits for 2 ms, and so many come, at random times, that the server and its
// clients, a process of their own, use half of all cores. The time of a request begins when it
// should have been sent. Windows with and without the profiler take turns. The table has the
// medians of the windows' p50, p99 and p99.9, and by how much they are longer with the profiler in
// a pair: the median, and an interval that has the true median with a probability of 95 %.
package main
