package session

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// An about makes the session metadata of a session's files.
type about struct {
	config *Config
	start  time.Time
	exe    executable
	cpus   float64              // that the process may use
	leaks  *tachyon.ProvenLeaks // what the runtime said at Stop; nil: it was not asked
	err    func() error         // returns the session's first error
}

// writeProvisional writes the session metadata that a file has if it is never finished.
func (a *about) writeProvisional(w *writer.Writer, part int, at time.Duration) error {
	return w.Provisional(tachyon.KindSession, a.describe(part, at, nil))
}

// describe returns the session metadata of one part: the program, the machine and the
// sampling statistics. Part 0 is the whole session. at is the time from the session's start
// to the part's start. stats is nil while the part is still being written. The program's
// arguments and environment are left out because they may hold secrets.
func (a *about) describe(part int, at time.Duration, stats *sampler.Stats) *tachyon.Session {
	c := a.config
	d := &tachyon.Session{
		Program:    programName(),
		GoVersion:  runtime.Version(),
		GOOS:       runtime.GOOS,
		GOARCH:     runtime.GOARCH,
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		CPUs:       a.cpus,
		Host:       hostname(),
		PID:        os.Getpid(),
		Service:    c.Service,
		Start:      a.start.Add(at).Round(0).UTC(), // without the monotonic reading
		Executable: a.exe.path,
		BuildID:    a.exe.buildID,
		Markers:    true,

		ServiceVersion: c.ServiceVersion,
	}
	if part > 1 { // in whole µs, as in the file's header
		d.Start = time.UnixMicro(a.start.UnixMicro()).Add(at).UTC()
	}
	if part > 0 {
		d.Part, d.SessionStart = part, a.start.Round(0).UTC()
	}
	if stats == nil { // provisional, for a file that is never finished
		d.Rate, d.Budget, d.Source = c.Rate, c.Budget, c.Source
		d.System = c.System
		d.Error = tachyon.NotStopped
	} else {
		stats.Describe(d)
	}
	d.Leaks = a.leaks
	if err := a.err(); err != nil {
		d.Error = err.Error()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		Module(d, info)
	}
	return d
}

// Module adds what a program's build information says of its main module.
func Module(d *tachyon.Session, info *debug.BuildInfo) {
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
