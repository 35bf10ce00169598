//go:build linux && (amd64 || arm64)

package attach

import (
	"cmp"
	"os"
	"runtime"
	"time"

	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// How a file says that it was recorded from outside.
const (
	sourceName = "attached"
	perfNote   = "from outside; what runs by perf events"
	pauseNote  = "from outside; what runs by pauses of threads; which goroutines had a core is guessed from the CPU time of the process"
	sourceNote = "from outside, without perf events: what running goroutines call is not known, and which of them had a core is guessed from the CPU time of the process"
)

// session describes the program and how it is recorded, in a file that begins at a time since the
// begin.
func (r *recorder) session(number int, part time.Duration) *tachyon.Session {
	info := r.program.info
	r.procs = cmp.Or(r.Process.procs(), r.procs)
	s := &tachyon.Session{
		Program: r.Name, GoVersion: info.GoVersion, GOOS: "linux", GOARCH: runtime.GOARCH, GOMAXPROCS: r.procs, CPUs: r.cpus,
		BuildID: r.program.build, Executable: r.program.path, PID: r.PID,
		Start: time.UnixMicro(int64(r.base + micros(part))).UTC(), Duration: r.now - part, Source: sourceName, SourceReason: sourceNote,
		Rate: max(int(time.Second/r.o.Interval), 1), Budget: r.o.Budget, Markers: true,
	}
	switch {
	case r.Pauses:
		s.SourceReason = pauseNote
	case r.perf != nil && r.perf.inKernel:
		s.SourceReason = perfNote
	case r.perf != nil:
		s.SourceReason = perfNote + ", without system calls"
	}
	s.Host, _ = os.Hostname()
	session.Module(s, info)
	s.ObjectsUnnamed = r.unnamed
	if s.Objects = tachyon.AllObjects; r.ends == nil {
		s.FarEndsUnknown = "Go 1.20 and older do not count the uses of a descriptor"
	}
	if !r.program.layout.Semaphores {
		s.Objects = tachyon.OnlyChannels
	}
	r.Cost = ownCPU()
	r.TicksAsked = max(int64(r.now/r.o.Interval), r.TicksReached) // the first one was at the begin
	r.ProcessCPU = r.cpu - r.processCPU
	s.Counts = r.Counts.Since(r.earlier)
	s.MaxGoroutines = r.most
	if number > 1 || r.rotates() {
		s.Part, s.SessionStart = number, time.UnixMicro(int64(r.base)).UTC()
	}
	if s.Duration > 0 {
		s.RateReached = float64(s.TicksReached) / s.Duration.Seconds()
	}
	if r.threads != nil {
		s.Instant, s.Source, s.SourceReason, s.FarEndsUnknown = true, "core", "", "a core does not say"
		s.Host, s.Duration, s.Rate, s.RateReached, s.TicksAsked, s.Cost = "", 0, 0, 0, 0, 0
	}
	return s
}

// clock returns the time of one of the kernel's clocks, 0 if it does not exist.
func clock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t)
	return time.Duration(t.Nano())
}

// monotonic returns the clock of the runtime's times.
func monotonic() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// cpuOf returns the CPU time of the process, 0 if it has ended. The clock's number is that of
// clock_getcpuclockid(3).
func (p *Process) cpuOf() time.Duration {
	if p.threads != nil {
		return 0
	}
	return clock(int32(^p.PID<<3 | 2)) // CPUCLOCK_SCHED
}

// A pace says how long it is until the next tick, so that ticks cost no more than they may.
type pace struct {
	interval time.Duration
	share    float64 // of one core
	cpu      time.Duration
	cost     float64 // of a tick, a moving mean
	due      time.Duration
	left     float64 // ticks that were left out because they would have cost too much
}

// next is called after a tick.
func (p *pace) next() time.Duration {
	cpu, now := ownCPU(), monotonic()
	spent := float64(cpu - p.cpu)
	p.cpu = cpu
	p.cost += (spent - p.cost) / 16 // from 0: the first tick reads every stack, which no later one does
	every := max(p.interval, time.Duration(p.cost/p.share))
	p.left += float64(every)/float64(p.interval) - 1
	if p.due += every; p.due < now {
		p.due = now
	}
	return p.due - now
}
