package profiler

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// describe returns the session metadata of one part: the program, the machine and the
// sampling statistics. Part 0 is the whole session. at is the time from the session's start
// to the part's start. stats is nil while the part is still being written. The program's
// arguments and environment are left out because they may hold secrets.
func (s *Session) describe(part int, at time.Duration, stats *sampler.Stats) *tachyon.Session {
	d := &tachyon.Session{
		Program:    programName(),
		GoVersion:  runtime.Version(),
		GOOS:       runtime.GOOS,
		GOARCH:     runtime.GOARCH,
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Host:       hostname(),
		PID:        os.Getpid(),
		Service:    s.config.service,
		Start:      s.start.Add(at).Round(0).UTC(), // without the monotonic reading
		Executable: s.exe.path,
		BuildID:    s.exe.buildID,
		Markers:    true,

		ServiceVersion: s.config.serviceVersion,
	}
	if part > 1 { // in whole µs, as in the file's header
		d.Start = time.UnixMicro(s.start.UnixMicro()).Add(at).UTC()
	}
	if part > 0 {
		d.Part, d.SessionStart = part, s.start.Round(0).UTC()
	}
	if stats == nil { // provisional, for a file that is never finished
		d.Rate, d.Budget, d.Source = s.config.rate, s.config.budget, string(s.config.source)
		d.System = s.config.system
		d.Error = tachyon.NotStopped
	} else {
		stats.Describe(d)
	}
	d.Leaks = s.leaks
	if err := s.Err(); err != nil {
		d.Error = err.Error()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		d.Module, d.Version = info.Main.Path, info.Main.Version
		for _, kv := range info.Settings {
			if strings.HasPrefix(kv.Key, "vcs") {
				if d.VCS == nil {
					d.VCS = map[string]string{}
				}
				d.VCS[kv.Key] = kv.Value
			}
		}
	}
	return d
}
