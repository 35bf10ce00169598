// Package pprof reads and writes profiles of go tool pprof: of wall time, CPU time,
// or both.
package pprof

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/google/pprof/profile"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// Sniff reports whether a file that begins with head may be a profile: all of them
// are gzipped, as other files are.
func Sniff(head []byte) bool { return bytes.HasPrefix(head, []byte{0x1f, 0x8b}) }

// Read reads a profile, gzipped or not.
func Read(r io.Reader) (*profile.Profile, error) {
	b, err := unpack(r)
	if err != nil {
		return nil, fmt.Errorf("not a pprof profile: %w", err)
	}
	p, err := pb.ParseUncompressed(b)
	if err != nil {
		return nil, fmt.Errorf("not a pprof profile: %w", err)
	}
	return fromProto(p)
}

// maxSize bounds a profile, which is kept in memory as a whole.
const maxSize = 512 << 20

// unpack reads all of r, gunzipped if it is gzipped. A small file that unpacks to
// something huge is an error: no profile does.
func unpack(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err == nil && len(b) > maxSize {
		err = fmt.Errorf("it has more than %d bytes", maxSize)
	}
	if err != nil || !Sniff(b) {
		return b, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	limit := min(16<<20+100*len(b), maxSize)
	out, err := io.ReadAll(io.LimitReader(z, int64(limit)+1))
	if err == nil && len(out) > limit {
		err = fmt.Errorf("%d bytes unpack to more than %d", len(b), limit)
	}
	return out, err
}

// The labels that Write adds to the goroutines' own.
const (
	labelGoroutine = "goroutine" // a number
	labelState     = "state"
	labelSystem    = "system" // "true" on the runtime's own goroutines and CPU time of no goroutine
	// ownPrefix goes before a goroutine's own label that has one of these names.
	ownPrefix = "label."
)

// comment marks a pprof profile as one of ours, with these labels in it.
const comment = "gotach wall-clock profile"

// fromProto adds up a pprof profile of time, from whatever wrote it: wall-clock
// profiles such as ours and fgprof's, Go's CPU profiles, and its block and mutex
// profiles, whose delay is the wall time. Profiles of anything else, such as
// memory, are an error.
func fromProto(in *pb.Profile) (*profile.Profile, error) {
	if err := in.CheckValid(); err != nil {
		return nil, fmt.Errorf("pprof profile: %w", err)
	}
	v, err := timeValues(in)
	if err != nil {
		return nil, err
	}
	b := profile.NewBuilder()
	p := b.Profile
	p.Duration, p.Interval = time.Duration(max(in.DurationNanos, 0)), v.period
	if in.TimeNanos != 0 {
		p.Start = time.Unix(0, in.TimeNanos)
	}
	if len(in.Mapping) > 0 {
		p.Program = in.Mapping[0].File
	}
	ours := slices.Contains(in.Comments, comment)
	expanded := map[*pb.Location][]uint32{}
	var stack []uint32
	for _, s := range in.Sample {
		stack = stack[:0]
		for _, l := range s.Location {
			ids, ok := expanded[l]
			if !ok {
				ids = expand(b, l)
				expanded[l] = ids
			}
			stack = append(stack, ids...)
		}
		r := profile.Record{Stack: stack}
		r.Count, r.Wall, r.CPU = v.of(s)
		if r.CPU == r.Wall && (v.cpu >= 0 || v.countedPeriodIsCPU) {
			r.State = profile.Running
		}
		if len(r.Stack) > 0 {
			if state := profile.LeafState(p.Frames[r.Stack[0]]); state != "" {
				r.State = state
			}
		}
		setLabels(&r, s, ours)
		b.Add(r)
	}
	return b.Finish(), nil
}

// expand returns the frames of a location, innermost first, inlined calls included.
func expand(b *profile.Builder, l *pb.Location) (ids []uint32) {
	for _, line := range l.Line {
		f, start := profile.Frame{Line: clampLine(line.Line)}, int32(0)
		if fn := line.Function; fn != nil {
			f.Func, f.File, start = fn.Name, fn.Filename, clampLine(fn.StartLine)
		}
		ids = append(ids, b.Frame(f, start))
	}
	if len(l.Line) == 0 { // nobody symbolized it
		f := profile.Frame{Func: fmt.Sprintf("%#x", l.Address)}
		if l.Mapping != nil {
			f.File = l.Mapping.File
		}
		ids = append(ids, b.Frame(f, 0))
	}
	return ids
}

func clampLine(n int64) int32 {
	if n < 0 || n > 1<<31-1 {
		return 0
	}
	return int32(n)
}

// setLabels takes over a sample's labels: all of them, and if the profile is ours
// those that Write added as what they stand for.
func setLabels(r *profile.Record, s *pb.Sample, ours bool) {
	set := func(k, v string) {
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[k] = v
	}
	for k, vs := range s.Label {
		v := strings.Join(vs, ",")
		switch {
		case ours && k == labelState:
			r.State = v
		case ours && k == labelSystem:
			r.System = v == "true"
		case ours:
			set(strings.TrimPrefix(k, ownPrefix), v)
		default:
			set(k, v)
		}
	}
	for k, vs := range s.NumLabel {
		if len(vs) == 0 {
			continue
		}
		if k == labelGoroutine {
			r.Goroutine = uint64(vs[0])
			continue
		}
		set(k, strconv.FormatInt(vs[0], 10))
	}
}

// values says where in a pprof sample its times are.
type values struct {
	count, wall, cpu   int   // -1: nowhere
	wallUnit, cpuUnit  int64 // ns
	period             time.Duration
	countTimesPeriod   bool // there is no time but count × period
	countedPeriodIsCPU bool
}

// timeValues finds the times.
func timeValues(in *pb.Profile) (v values, err error) {
	v = values{count: -1, wall: -1, cpu: -1}
	var names []string
	for i, t := range in.SampleType {
		names = append(names, t.Type+"/"+t.Unit)
		unit := nanos(t.Unit)
		switch {
		case unit == 0:
			if t.Unit == "count" && v.count < 0 {
				v.count = i
			}
		case t.Type == "cpu" && v.cpu < 0:
			v.cpu, v.cpuUnit = i, unit
		case t.Type != "cpu" && v.wall < 0:
			v.wall, v.wallUnit = i, unit
		}
	}
	if t := in.PeriodType; t != nil && in.Period > 0 {
		if unit := nanos(t.Unit); unit > 0 {
			v.period = scale(in.Period, unit)
			v.countedPeriodIsCPU = t.Type == "cpu"
		}
	}
	switch {
	case v.wall >= 0 || v.cpu >= 0:
		return v, nil
	case v.count >= 0 && v.period > 0:
		v.countTimesPeriod = true
		return v, nil
	case len(names) == 0:
		return v, errors.New("the pprof profile has no sample types")
	}
	return v, fmt.Errorf("the pprof profile has %s and no time: gotach reads profiles of wall-clock or CPU time", strings.Join(names, ", "))
}

// of returns the values of a sample. Negative ones, as in the difference of two
// profiles, count as 0.
func (v *values) of(s *pb.Sample) (count int64, wall, cpu time.Duration) {
	if v.count >= 0 {
		count = max(s.Value[v.count], 0)
	}
	switch {
	case v.countTimesPeriod:
		wall = scale(count, int64(v.period))
		if v.countedPeriodIsCPU {
			cpu = wall
		}
		return count, wall, cpu
	case v.cpu >= 0:
		cpu = scale(s.Value[v.cpu], v.cpuUnit)
	}
	wall = cpu
	if v.wall >= 0 {
		wall = scale(s.Value[v.wall], v.wallUnit)
	}
	return count, wall, cpu
}

// scale returns n × unit, not below 0 and not above what there is.
func scale(n, unit int64) time.Duration {
	if n <= 0 {
		return 0
	}
	if n > (1<<63-1)/unit {
		return 1<<63 - 1
	}
	return time.Duration(n * unit)
}

// nanos returns a unit of time in nanoseconds, 0 for any other.
func nanos(unit string) int64 {
	switch strings.ToLower(unit) {
	case "nanoseconds", "nanosecond", "ns":
		return 1
	case "microseconds", "microsecond", "us", "µs":
		return int64(time.Microsecond)
	case "milliseconds", "millisecond", "ms":
		return int64(time.Millisecond)
	case "seconds", "second", "s":
		return int64(time.Second)
	}
	return 0
}

// defaultSampleType is what pprof's tools show unless told otherwise.
func defaultSampleType(p *profile.Profile) string {
	if p.Unitless {
		return "samples"
	}
	return "wall"
}

// describe says in one line how a session sampled.
func describe(s *tachyon.Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "source %s, %.0f of %d ticks/s, %d samples, %d dropped", s.Source, s.RateReached, s.Rate, s.Samples, s.Dropped)
	if s.GoVersion != "" {
		fmt.Fprintf(&b, ", %s %s/%s", s.GoVersion, s.GOOS, s.GOARCH)
	}
	return b.String()
}
