// Bench compares what profilers that see waiting goroutines cost a program:
// gotach with its native and its portable source, fgprof, and bare tickers around
// runtime.GoroutineProfile and runtime.Stack. runtime/pprof's CPU profile, which
// does not see them, is there for scale, and so is a thread that a timer wakes at
// the same rate and that does nothing: what ticks cost on this machine, whoever takes them.
//
//	go run ./bench                                  # the README's table; some 35 minutes
//	go run ./bench -goroutines 1000 -pairs 3        # a part of it
//	go test -run - -bench . ./bench                 # shorter, in the form that benchstat reads
//
// Each row is a process of its own, so that no profiler finds what another one
// left behind. In it, goroutines wait 15 to 20 frames deep, and two things happen.
//
// First, with nothing else to do, the profiler looks at all goroutines at each
// tick (gotach with a budget of 100 %), at a rate that leaves it the time to:
//
//   - look: what stands between a tick and its end, median. Of GoroutineProfile, Stack
//     and fgprof's loop, the time of the call, for most of which the world is stopped.
//     Of gotach's native source, which stops nothing, the CPU time of the thread that
//     ticks, kernel included (mean; only Linux tells it), and of the timer alone. In brackets the ratio to
//     GoroutineProfile's.
//   - CPU: CPU time of the whole process for each tick, less what it takes without
//     a session: wake-ups, draining, encoding and writing included.
//   - memory: resident memory that the session added, at most; in brackets what
//     each goroutine beyond 1,000 added to what it is with 1,000.
//
// Then a load keeps every core busy, without the profiler and with it, in turns, at its
// usual rate and gotach at its default budget. Each window begins when the session has
// been running for a while and ends before it is stopped, so that neither counts:
//
//   - ticks: reached of those that the rate asks for. A tick of gotach is a time at which
//     its file has a sample: where other programs take the cores these are fewer than
//     the session counts, which the progress tells. fgprof does not tell its ticks; each
//     stops the world twice, so they are half the stops. Of the CPU profile, which ticks
//     in CPU time, they are its samples.
//   - gap: time from one tick to the next, median and 99th percentile.
//   - slowdown: by how much less work the load does than in the two windows
//     around without the profiler; the median of all, and its quartiles. Five
//     pairs are enough once they have taken three seconds for each that was to be.
//   - stops: how often a second the world was stopped but for garbage
//     collection (/sched/pauses/total/other:seconds).
//   - written: bytes of file that a second of the session came to.
//
// The load does not allocate, and collections are forced between windows:
// one of a hundred thousand stacks in either half of a pair would hide what is measured.
//
// "fgprof's loop" is a copy of the loop in fgprof.Start, which has a fixed rate,
// at the same rate as the others. It is what tells its calls and gaps.
package main
