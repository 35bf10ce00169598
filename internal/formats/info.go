package formats

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// fields is a list of facts. Those without a text are for JSON only.
type fields []Field

func (l *fields) add(key, label string, value any, text string) {
	*l = append(*l, Field{key, label, value, text})
}

// number adds a count.
func (l *fields) number(key, label string, n int64) {
	l.add(key, label, n, fmt.Sprint(n))
}

// text adds a text if there is one.
func (l *fields) text(key, label, s string) {
	if s != "" {
		l.add(key, label, s, s)
	}
}

// profileInfo returns what is known of a file whose format says no more than a Profile.
func profileInfo(f *Format, p *profile.Profile) fields {
	var l fields
	wall, cpu := p.Total()
	l.add("format", "format", f.Name, f.Name+": "+f.Doc)
	l.text("program", "program", p.Program)
	if !p.Start.IsZero() {
		l.add("start", "start", p.Start, p.Start.Format(time.RFC3339))
	}
	if p.Duration > 0 {
		l.add("duration_ns", "duration", p.Duration, p.Duration.String())
	}
	if p.Unitless {
		l.add("samples", "weights", p.Samples, fmt.Sprintf("%d in all; the file does not say of what", p.Samples))
	} else {
		l.number("samples", "samples", p.Samples)
	}
	// What the format does not know is for JSON only.
	known := func(label string, is bool) string {
		if is {
			return label
		}
		return ""
	}
	l.add("goroutines", known("goroutines", p.Goroutines > 0), p.Goroutines, fmt.Sprint(p.Goroutines))
	l.add("interval_us", known("interval", p.Interval > 0), p.Interval.Microseconds(), p.Interval.String())
	l.number("frames", "frames", int64(len(p.Frames)))
	l.number("stacks", "stacks", int64(len(p.Records)))
	if !p.Unitless {
		text := wall.String()
		if p.Goroutines > 1 {
			text += " of all goroutines together"
		}
		l.add("wall_ns", "wall time", wall, text)
		l.add("cpu_ns", known("CPU time", cpu > 0), cpu, cpu.String())
	}
	return l
}

// verified is Verify's answer for a format that says no more than a Profile.
func verified(p *profile.Profile) string {
	if p.Unitless {
		return fmt.Sprintf("%d different stacks, their weights %d in all", len(p.Records), p.Samples)
	}
	wall, _ := p.Total()
	return fmt.Sprintf("%d samples in %d different stacks, %s in all", p.Samples, len(p.Records), wall)
}

// Info says what the header, the tables and the metadata say. If gotach recorded the file,
// Info also reads the samples. An error in the samples is a warning, and what they would
// tell is left out.
func (c *tachyonContent) Info() ([]Field, error) {
	m, err := c.Overview()
	if err != nil {
		return nil, err
	}
	if m.Session != nil && m.Session.Objects != "" {
		numbers := map[int32]bool{} // an object may come several times
		for o, err := range c.Objects() {
			if err != nil {
				return nil, err
			}
			if !numbers[o.Number] {
				numbers[o.Number] = true
				m.Objects = append(m.Objects, *o)
			}
		}
	}
	var u *usage
	if m.Session != nil {
		if _, u, err = readUsage([]stream.File{{Stream: c.Reader}}, c.o); err != nil {
			if ctx := c.o.Context; ctx != nil && ctx.Err() != nil {
				return nil, err
			}
			c.o.warn(err)
		}
	}
	l := streamInfo(c.Header(), m, u)
	c.fileInfo(&l, m)
	return l, nil
}

// streamInfo returns what header, metadata and, unless u is nil, the samples say about the
// session.
func streamInfo(h tachyon.Header, m *tachyon.Metadata, u *usage) fields {
	s := m.Session
	if s == nil {
		s = &tachyon.Session{}
	}
	// The counts of a session that was not stopped are missing.
	counted := m.Session != nil && s.Duration > 0
	var l fields
	l.addProgram(s)
	if m.Session != nil {
		text := fmt.Sprint(s.PID)
		if s.Host != "" {
			text += " on " + s.Host
		}
		l.add("pid", "process", s.PID, text)
		l.add("host", "", s.Host, "")
	}
	l.addAmounts(h, s, u)
	l.addTicks(s)
	dropped := ""
	if counted {
		dropped = fmt.Sprintf("%d, %d of them torn", s.Dropped, s.Torn)
	}
	l.add("dropped", "dropped", s.Dropped, dropped)
	l.add("torn", "", s.Torn, "")
	l.addGaps(s)
	if m.Session != nil && !s.Instant {
		l.addUsage(s, u)
		if s.CPUAtTicks > 0 {
			text := "" // every thread has some, before it gets its timer
			if s.CPUAtTicks > s.ProcessCPU/100 {
				text = s.CPUAtTicks.Round(time.Microsecond).String() + " of CPU time of threads without a CPU timer: some of it is where they waited"
			}
			l.add("cpu_at_ticks_ns", "by ticks only", s.CPUAtTicks, text)
		}
	}
	if counted {
		l.add("cost_ns", "cost", s.Cost, fmt.Sprintf("%s of CPU time, budget %g %%", s.Cost.Round(time.Microsecond), s.Budget))
		l.add("budget_percent", "", s.Budget, "")
		most := fmt.Sprint(s.MaxGoroutines)
		if unseen := float64(s.NotSeen) / float64(s.Duration); unseen >= 0.1 {
			most += fmt.Sprintf(" that have samples; on average %.1f others were not seen", unseen)
		}
		l.add("max_goroutines", "most at a time", s.MaxGoroutines, most)
	}
	if x := s.Leaks; x != nil {
		text := fmt.Sprintf("%d goroutines proven to be leaked by the runtime", x.Count)
		if x.Unavailable != "" {
			text = "not known: " + x.Unavailable
		}
		l.add("leaks", "leaks", x.Count, text)
		l.add("leaks_unavailable", "", x.Unavailable, "")
	}
	if s.Objects != "" {
		l.addWaitedFor(s, m.Objects)
	}
	if s.Kept != "" {
		l.add("kept", "kept", s.Kept, "by the program: "+s.Kept)
	}
	if s.Stops {
		l.add("stops", "stops", true, "counted: how often each goroutine stopped running")
	}
	if s.Error == tachyon.NotStopped { // this is no error
		l.add("stopped", "end", false, s.Error)
	} else {
		l.text("error", "error", s.Error)
	}
	return l
}

// addProgram adds which program it was, and its build.
func (l *fields) addProgram(s *tachyon.Session) {
	l.text("program", "program", s.Program)
	l.text("module", "module", strings.TrimSpace(s.Module+" "+s.Version))
	l.text("service", "service", s.Service)
	l.text("service_version", "service version", s.ServiceVersion)
	for _, k := range slices.Sorted(maps.Keys(s.VCS)) {
		l.text(k, k, s.VCS[k])
	}
	if s.GoVersion != "" {
		text := fmt.Sprintf("%s %s/%s", s.GoVersion, s.GOOS, s.GOARCH)
		if s.GOMAXPROCS > 0 {
			text += fmt.Sprintf(", GOMAXPROCS %d", s.GOMAXPROCS)
		}
		if s.CPUs > 0 {
			text += fmt.Sprintf(", may use %.3g CPUs", s.CPUs)
		}
		l.add("go_version", "built with", s.GoVersion, text)
	}
	l.text("executable", "executable", s.Executable)
	l.text("build_id", "build ID", s.BuildID)
}

// addAmounts adds when it was sampled, for how long, and how much there is.
func (l *fields) addAmounts(h tachyon.Header, s *tachyon.Session, u *usage) {
	start := s.Start
	if start.IsZero() {
		start = time.UnixMicro(int64(h.Start)).UTC()
	}
	l.add("start", "start", start, start.Format(time.RFC3339Nano))
	if s.Duration > 0 {
		l.add("duration_ns", "duration", s.Duration, s.Duration.Round(time.Millisecond).String())
	}
	l.number("samples", "samples", int64(h.Samples))
	goroutines := int64(h.Threads)
	if u != nil {
		goroutines = int64(u.goroutines) // not all threads are goroutines
	}
	l.number("goroutines", "goroutines", goroutines)
	if !s.Instant {
		l.add("interval_us", "interval", h.Interval, reader.Micros(h.Interval).String())
	}
}

// addTicks adds how it was sampled, and how often.
func (l *fields) addTicks(s *tachyon.Session) {
	source := s.Source
	if s.SourceReason != "" {
		source += " (" + s.SourceReason + ")"
	}
	l.add("source", "source", s.Source, source)
	l.add("source_reason", "", s.SourceReason, "")
	ticks := ""
	if s.TicksAsked > 0 {
		ticks = fmt.Sprintf("%d of %d (%.1f %%), %.0f a second of %d", s.TicksReached, s.TicksAsked,
			100*float64(s.TicksReached)/float64(s.TicksAsked), s.RateReached, s.Rate)
	}
	l.add("ticks_asked", "", s.TicksAsked, "")
	l.add("ticks_reached", "ticks reached", s.TicksReached, ticks)
	l.add("ticks_for_budget", "ticks left out", s.TicksForBudget, leftOut(s))
	l.add("ticks_idle", "", s.TicksIdle, "")
	l.add("rate", "", s.Rate, "")
	l.add("rate_reached", "", s.RateReached, "")
}

// addGaps adds what is missing in the samples.
func (l *fields) addGaps(s *tachyon.Session) {
	if s.GoroutinesUntracked > 0 {
		l.add("goroutines_untracked", "not followed", s.GoroutinesUntracked, fmt.Sprintf("%d goroutines, but for when they ran: too many", s.GoroutinesUntracked))
	}
	if s.TicksRefused > 0 {
		l.add("ticks_refused", "not looked", s.TicksRefused, fmt.Sprintf("%d ticks, %s: too many goroutines to stop the program for", s.TicksRefused, s.Blind.Round(time.Millisecond)))
		l.add("blind_ns", "", s.Blind, "")
	}
	if s.Unwritten > 0 {
		l.add("unwritten_ns", "not written", s.Unwritten, s.Unwritten.Round(time.Millisecond).String()+" at the end of a file: the disk was full or failed")
	}
	if s.SignalTaken > 0 {
		l.add("signal_taken", "signal taken", s.SignalTaken, count(s.SignalTaken, "time")+" by the program or its C code: up to 40 ms each without samples of what ran")
	}
}

// addWaitedFor adds how many objects, connections and files goroutines waited for.
func (l *fields) addWaitedFor(s *tachyon.Session, objects []tachyon.Object) {
	ends := 0
	for i := range objects {
		if objects[i].Name != "" {
			ends++
		}
	}
	text := fmt.Sprintf("%d objects that more than one goroutine waited for (%s)", len(objects)-ends, s.Objects)
	if s.ObjectsUnnamed != "" {
		text += ", without names: " + s.ObjectsUnnamed
	}
	l.add("objects", "waited for", len(objects)-ends, text)
	if s.FarEndsUnknown != "" {
		l.add("far_ends_unknown", "far ends", s.FarEndsUnknown, "not known: "+s.FarEndsUnknown)
	} else if ends > 0 {
		l.add("far_ends", "far ends", ends, fmt.Sprintf("%d connections and files that goroutines waited for in [IO wait]", ends))
	}
}

// leftOut says why a session has fewer ticks than were asked for.
func leftOut(s *tachyon.Session) string {
	if s.TicksForBudget == 0 && s.TicksIdle == 0 {
		return "" // the source does not count the reasons
	}
	var why []string
	for _, left := range []struct {
		n   int64
		why string
	}{
		{s.TicksForBudget, "to stay within the budget"}, {s.TicksIdle, "while no goroutine ran"},
		{s.TicksRefused, "for too many goroutines"}, {s.TicksLate(), "because they were late"},
	} {
		if left.n > 0 {
			why = append(why, fmt.Sprintf("%d %s", left.n, left.why))
		}
	}
	return strings.Join(why, ", ")
}

// fileInfo adds what is known about the file itself.
func (c *tachyonContent) fileInfo(l *fields, m *tachyon.Metadata) {
	h := c.Header()
	l.number("frames", "frames", int64(len(c.Frames())))
	l.add("layout", "layout", h.Layout.String(), fmt.Sprintf("%s, version %d on disk", h.Layout, uint32(h.Layout)))
	if h.Layout == tachyon.CPython315 {
		v := fmt.Sprintf("%d.%d.%d", h.Python[0], h.Python[1], h.Python[2])
		if v != "0.0.0" {
			l.text("python", "Python", v)
		}
		if mode := h.Config & 7; mode > 0 && mode < 6 {
			l.text("mode", "mode", []string{"wall", "cpu", "gil", "all", "exception"}[mode-1])
		}
		if s := c.Statistics(); s != nil {
			l.add("stats_duration_s", "Python's count", s.Duration, fmt.Sprintf("%.3f s, %.0f samples a second", s.Duration, s.Rate))
			l.add("stats_rate", "", s.Rate, "")
		}
	}
	compression := "none"
	if h.Compression == tachyon.CompressionZstd {
		compression = "zstd"
	}
	l.text("compression", "compression", compression)
	size := fmt.Sprintf("%d bytes", c.Size())
	if h.Samples > 0 {
		size += fmt.Sprintf(", %.2f a sample", float64(c.Size())/float64(h.Samples))
	}
	l.add("size", "size", c.Size(), size)
	if m.Checksum != nil {
		l.text("crc32c", "CRC-32C", fmt.Sprintf("%08x", m.Checksum.CRC32C))
	}
}
