package formats

import (
	"fmt"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A usage is what info finds in the samples of a session.
type usage struct {
	samples    uint64 // also those that stand for no time
	goroutines int
	// CPU time of the program's goroutines, the runtime's, and of no goroutine.
	user, runtime, scheduler, c, profiler time.Duration
	// noCore is the time in which goroutines ran for the Go scheduler without a core.
	noCore time.Duration
}

// readUsage reads all samples. It also returns the source of them.
func readUsage(files []stream.File, o *Options) (*stream.Source, *usage, error) {
	var u usage
	src, err := stream.New(files, stream.Options{Markers: true, Objects: true, Context: o.Context, Progress: o.Progress})
	if err != nil {
		return nil, nil, err
	}
	for s, err := range src.Samples() {
		if err != nil {
			return nil, nil, err
		}
		u.samples++
		if s.Marker {
			continue
		}
		row := "" // the outermost function
		for stack := s.Stack; stack != 0; stack = src.Stacks()[stack].Caller {
			row = src.Frames()[src.Stacks()[stack].Frame].Func
		}
		cpu := s.CPU()
		switch {
		case cpu == 0:
			if s.Status&(tachyon.HasGIL|tachyon.OnCPU) == tachyon.HasGIL {
				u.noCore += s.Wall
			}
		case s.Interpreter == tachyon.User:
			u.user += cpu
		case s.Interpreter == tachyon.Runtime:
			u.runtime += cpu
		case row == tachyon.FuncC:
			u.c += cpu
		case row == tachyon.FuncProfiler:
			u.profiler += cpu
		case row == tachyon.FuncUnknown:
			u.user += cpu
		default:
			u.scheduler += cpu
		}
	}
	u.goroutines = src.Goroutines()
	return src, &u, nil
}

// addUsage adds where the CPU time was used, and where it was missing.
func (l *fields) addUsage(s *tachyon.Session, u *usage) {
	if u != nil {
		var parts []string
		var sum time.Duration
		kind := func(key, name string, d time.Duration) {
			l.add(key, "", d, "")
			sum += d
			if d > 0 {
				parts = append(parts, name+" "+rounded(d))
			}
		}
		kind("cpu_goroutines_ns", "goroutines", u.user)
		kind("cpu_runtime_ns", "runtime", u.runtime)
		kind("cpu_scheduler_ns", "scheduler", u.scheduler)
		kind("cpu_c_threads_ns", "C threads", u.c)
		kind("cpu_profiler_ns", "profiler", u.profiler)
		text := rounded(sum)
		if s.ProcessCPU > 0 {
			text += " of the process's " + rounded(s.ProcessCPU)
		}
		if len(parts) > 0 {
			text += ": " + strings.Join(parts, ", ")
		}
		l.add("cpu_ns", "CPU time", sum, text)
		l.add("process_cpu_ns", "", s.ProcessCPU, "")
		l.add("no_core_ns", "no core", u.noCore, unless(u.noCore == 0, rounded(u.noCore)+" in which goroutines ran for Go, but the kernel gave their threads no core"))
	} else {
		l.add("process_cpu_ns", "CPU time", s.ProcessCPU, unless(s.ProcessCPU == 0, rounded(s.ProcessCPU)))
	}
	l.add("throttled_ns", "throttled", s.Throttled, unless(s.Throttled == 0 && s.ThrottledPeriods == 0,
		fmt.Sprintf("%s in %s: the CPU quota of the cgroup was used up", rounded(s.Throttled), count(s.ThrottledPeriods, "period"))))
	l.add("throttled_periods", "", s.ThrottledPeriods, "")
	l.add("not_seen_ns", "not seen", s.NotSeen, unless(s.NotSeen == 0, rounded(s.NotSeen)+" of goroutines that no sample stands for"))
}

// unless returns a text, or "" if it is not to be shown.
func unless(hidden bool, text string) string {
	if hidden {
		return ""
	}
	return text
}

// rounded returns a time with as many digits as say something.
func rounded(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 10_000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// count returns a number and a noun, in the plural if need be.
func count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
