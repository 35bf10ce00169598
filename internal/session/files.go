package session

import (
	"cmp"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A sink writes a session's samples to one file after the other.
type sink struct {
	*rotate.Writer
	about *about
	part  int // number of the file that is being written, from 1
	names objectNames
}

var _ sampler.Sink = (*sink)(nil)

// create makes the session's file, or with rotation its first file. failed is called when a file
// can no longer be written.
func create(path string, about *about, o writer.Options, failed func(error)) (*sink, error) {
	c := about.config
	out := &sink{about: about, names: objectNames{find: findVariables}}
	ro := rotate.Options{
		Every: c.RotateEvery, Bytes: c.RotateBytes,
		Keep: c.KeepFiles, KeepBytes: c.KeepBytes,
		OneFile: c.OneFile != "",
		Writer:  o,
		Begin: func(w *writer.Writer, start uint64) error {
			part := out.part + 1
			if part == 1 && !c.rotates() {
				part = 0 // there will probably be no second file
			}
			return about.writeProvisional(w, part, time.Duration(start-o.Start)*time.Microsecond)
		},
		Failed: failed,
		Deleting: func(paths []string) {
			c.Logger().Info("gotach: unfinished profiles of programs that were killed are deleted, because there are too many", "files", paths)
		},
	}
	var err error
	if out.Writer, err = rotate.Create(path, ro); err != nil {
		return nil, err
	}
	out.part = 1
	return out, nil
}

// WriteRecords adds records to the file, objects with the names that are known, and those whose
// names have become known.
func (k *sink) WriteRecords(r *tachyon.Records) error {
	if named := k.names.poll(); len(named) > 0 {
		if err := k.Writer.WriteRecords(&tachyon.Records{Objects: named}); err != nil {
			return err
		}
	}
	k.names.name(r.Objects)
	if r.Progress != nil {
		r.Progress.ObjectsUnnamed = k.names.reason()
	}
	return k.Writer.WriteRecords(r)
}

// Next begins a new file. The sampler calls it when a file is full; at is the time since
// the session's start.
func (k *sink) Next(at time.Duration, cut func() sampler.Part) {
	start := uint64(k.about.start.UnixMicro()) + uint64(at.Microseconds())
	k.Writer.Next(start, func() func(*writer.Writer) error {
		p, n, unnamed := cut(), k.part, k.names.cut()
		k.part++
		return func(w *writer.Writer) error { return complete(w, k.about, n, &p, &k.names, unnamed, k.Ending) }
	})
}

// end finishes the file that is being written.
func (k *sink) end(p *sampler.Part) error {
	n := k.part
	if n == 1 && !k.about.config.rotates() {
		n = 0 // the session has one file
	}
	k.names.settle()
	unnamed := k.names.cut()
	return k.Writer.Close(func(w *writer.Writer) error { return complete(w, k.about, n, p, &k.names, unnamed, k.Ending) })
}

// discard removes the file of a session that could not begin. If a file with contents existed
// before, Create has emptied it. That file stays, and its metadata have the error why.
func (k *sink) discard(why error) error {
	k.names.settle()
	return k.Writer.Discard(func(w *writer.Writer) error {
		d := k.about.describe(0, 0, nil)
		d.Error = why.Error()
		return w.AddMetadata(tachyon.KindSession, d)
	})
}

// complete writes the metadata of the nth part to its file, 0 if it is the whole session. unnamed
// are its objects that may have names, kept says why the file is kept.
func complete(w *writer.Writer, about *about, n int, p *sampler.Part, names *objectNames, unnamed []tachyon.Object, kept string) error {
	if d := p.Stats.Unwritten; d > 0 {
		about.config.Logger().Warn("gotach: samples are missing, because they could not be written", "for", d.Round(time.Millisecond), "dropped", p.Stats.Dropped, "until", about.start.Add(p.End).Round(0))
	}
	// The writer keeps its first error; Close finishes the file if it can.
	err := w.WriteRecords(&tachyon.Records{Goroutines: p.Goroutines, Stops: p.Stops})
	err = cmp.Or(err, names.finish(w, unnamed))
	d := about.describe(n, p.Start, &p.Stats)
	d.ObjectsUnnamed, d.Kept = names.reason(), kept
	if e := w.AddMetadata(tachyon.KindSession, d); e != nil {
		return e
	}
	if pcs := p.PCs; pcs != nil {
		pcs.TextStart, pcs.TextSize = about.exe.textStart, about.exe.textSize
		return cmp.Or(w.AddMetadata(tachyon.KindPCs, pcs), err)
	}
	return err
}

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
