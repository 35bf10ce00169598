package formats

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// Join makes one profile of many, such as the files of a session that was
// rotated. The inputs are its own from then on, and closed with it.
//
// If all keep their samples, so does what is made of them: one after the other in
// the order of their start times, each where it lies in time. A file whose clock is
// not the wall clock follows the one before. Goroutines of one process are the same
// by their ids, those of different ones never: where ids coincide the later process's
// are 10^12 more. Where files between two of a session are missing, its goroutines
// do "[not recorded]". Otherwise sums are added up.
func Join(inputs []*Input, o Options) (*Input, error) {
	if len(inputs) == 1 {
		return inputs[0], nil
	}
	in := &Input{Name: fmt.Sprintf("%s and %d more", inputs[0].Name, len(inputs)-1), Format: tach, options: o}
	c, err := join(inputs, &in.options)
	if err != nil {
		return nil, errors.Join(err, closeAll(inputs))
	}
	if _, ok := c.(series); !ok {
		in.Format = inputs[0].Format
	}
	in.content = c
	return in, nil
}

func closeAll(inputs []*Input) (err error) {
	for _, in := range inputs {
		err = errors.Join(err, in.Close())
	}
	return err
}

func join(inputs []*Input, o *Options) (Content, error) {
	var files []*joinFile
	for _, in := range inputs {
		if _, ok := in.content.(series); !ok {
			return &summed{inputs}, nil
		}
		f, err := newJoinFile(in)
		if err != nil {
			return nil, named(in, err)
		}
		files = append(files, f)
	}
	c, err := spool(o, func(create func(start, interval uint64) (*writer.Writer, error)) error {
		return joinSeries(files, create)
	})
	if err != nil {
		return nil, err
	}
	return &joined{c.(*spooled), inputs}, nil
}

func named(in *Input, err error) error { return fmt.Errorf("%s: %w", in.Name, err) }

// summed is the sum of profiles that are sums.
type summed struct{ inputs []*Input }

func (s *summed) Close() error { return closeAll(s.inputs) }

func (s *summed) Profile() (*profile.Profile, error) {
	var list []*profile.Profile
	for _, in := range s.inputs {
		p, err := in.Profile()
		if err != nil {
			return nil, named(in, err)
		}
		list = append(list, p)
	}
	return profile.Sum(list), nil
}

// CutOff says of which inputs something is missing.
func (s *summed) CutOff() (err error) {
	for _, in := range s.inputs {
		if e := in.CutOff(); e != nil {
			err = errors.Join(err, named(in, e))
		}
	}
	return err
}

// joined is a series of many files, rewritten as one temporary file.
type joined struct {
	*spooled
	inputs []*Input
}

func (j *joined) Close() error { return errors.Join(j.spooled.Close(), closeAll(j.inputs)) }

// Info and Verify say what they say of a recorded file.
func (j *joined) Info() ([]Field, error)  { return j.spooled.tachyonContent.Info() }
func (j *joined) Verify() (string, error) { return j.spooled.tachyonContent.Verify() }

// process tells apart whose goroutine ids are the same.
type process struct {
	host  string
	pid   int
	start int64 // µs, of the session
	file  int   // of files that do not say more, each is one
}

// A joinFile is one of the files.
type joinFile struct {
	in      *Input
	r       *reader.Reader
	m       *reader.Metadata
	h       reader.Header
	process process
	first   map[uint64]uint64 // see Metadata.FirstWeights
	shift   uint64            // µs to add to its times
	end     uint64            // µs, shifted; when its last sample was
	hole    bool              // the file before it in its session is not there
	ids     []uint32          // of frames, in the joined file
}

// part is which file of its session it is; 0 if it does not say.
func (f *joinFile) part() int {
	if f.m.Session == nil {
		return 0
	}
	return f.m.Session.Part
}

func newJoinFile(in *Input) (*joinFile, error) {
	r, err := in.Series()
	if err != nil {
		return nil, err
	}
	m, err := r.Metadata()
	if err != nil {
		return nil, err
	}
	return &joinFile{in: in, r: r, m: m, h: r.Header(), first: m.FirstWeights()}, nil
}

// wallClock is when, in µs, no clock but the wall clock is, though that may be
// wrong: in the year 2000.
const wallClock = 946_684_800_000_000

// thread is one in the joined file.
type thread struct {
	id          uint64
	interpreter uint32
}

// A joiner writes files into one.
type joiner struct {
	w       *writer.Writer
	start   uint64
	renamed map[process]map[uint64]uint64
	used    map[uint64]process
	last    map[thread]uint64 // when its last sample was
	weights map[uint64]uint64 // of first samples, where that is not the joined file's interval
	gap     uint32            // the frame of what is not in any of the files
	order   []uint64          // goroutines that metadata speaks of
	known   map[uint64]*tachyon.Goroutine
}

func joinSeries(files []*joinFile, create func(start, interval uint64) (*writer.Writer, error)) error {
	slices.SortStableFunc(files, func(a, b *joinFile) int {
		return cmp.Or(cmp.Compare(b2i(a.h.Start < wallClock), b2i(b.h.Start < wallClock)), cmp.Compare(a.h.Start, b.h.Start),
			cmp.Compare(a.part(), b.part()))
	})
	w, err := create(files[0].h.Start, files[0].h.Interval)
	if err != nil {
		return err
	}
	j := &joiner{
		w: w, start: files[0].h.Start,
		renamed: map[process]map[uint64]uint64{}, used: map[uint64]process{},
		last: map[thread]uint64{}, weights: map[uint64]uint64{},
		gap:   w.Intern(tachyon.Frame{Func: "[not recorded]"}),
		known: map[uint64]*tachyon.Goroutine{},
	}
	parts := map[process]int{} // the latest one's number
	for i, f := range files {
		f.process = process{file: i + 1}
		if s := f.m.Session; s != nil {
			begin := s.SessionStart
			if begin.IsZero() {
				begin = s.Start
			}
			f.process = process{host: s.Host, pid: s.PID, start: begin.UnixMicro()}
			f.hole = f.part() > parts[f.process]+1
			parts[f.process] = f.part()
		}
		if i > 0 && f.h.Start < wallClock {
			f.shift = files[i-1].end - f.h.Start
		}
		if err := j.file(f, files[0].h.Interval); err != nil {
			return named(f.in, err)
		}
	}
	return j.metadata(files)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// id returns what a goroutine is called in the joined file.
func (j *joiner) id(p process, id uint64) uint64 {
	const apart = 1_000_000_000_000
	ids := j.renamed[p]
	if ids == nil {
		ids = map[uint64]uint64{}
		j.renamed[p] = ids
	}
	to, ok := ids[id]
	if !ok {
		for to = id; ; to += apart {
			if _, taken := j.used[to]; !taken {
				break
			}
		}
		ids[id], j.used[to] = to, p
	}
	return to
}

// file writes the samples of a file.
func (j *joiner) file(f *joinFile, interval uint64) error {
	for _, frame := range f.r.Frames() {
		f.ids = append(f.ids, j.w.Intern(frame))
	}
	f.end = f.h.Start + f.shift
	begun := map[thread]bool{}
	var out reader.Sample
	for s, err := range f.in.options.samples(f.r) {
		if err != nil {
			return err
		}
		stack := out.Stack[:0]
		for _, id := range s.Stack {
			stack = append(stack, f.ids[id])
		}
		out = *s
		out.Stack = stack
		out.Thread, out.Time = j.id(f.process, s.Thread), s.Time+f.shift
		t := thread{out.Thread, out.Interpreter}
		if !begun[t] {
			begun[t] = true
			if err := j.seam(f, s.Thread, &out, interval); err != nil {
				return err
			}
		}
		if err := j.w.Write(&out); err != nil {
			return err
		}
		j.last[t] = out.Time
		if int64(out.Time-f.end) > 0 {
			f.end = out.Time
		}
	}
	j.goroutines(f)
	return nil
}

// seam looks after the weight of a thread's first sample in a file.
func (j *joiner) seam(f *joinFile, id uint64, s *reader.Sample, interval uint64) error {
	weight, said := f.first[id]
	delete(f.first, id)
	if !said {
		weight = f.h.Interval
	}
	t := thread{s.Thread, s.Interpreter}
	last, seen := j.last[t]
	if !seen {
		if weight != interval {
			j.weights[s.Thread] = weight
		}
		return nil
	}
	// Its previous sample may be in a file that is not here. What a killed program's
	// last file does not say is told by the number of the file before.
	if before := s.Time - weight; (said || f.hole) && before > last {
		return j.w.Write(&reader.Sample{Thread: t.id, Interpreter: t.interpreter, Time: before, Stack: []uint32{j.gap}})
	}
	return nil
}

// goroutines takes over what a file says of goroutines.
func (j *joiner) goroutines(f *joinFile) {
	at := f.h.Start + f.shift - j.start
	for _, g := range f.m.Goroutines {
		id := j.id(f.process, g.ID)
		k := j.known[id]
		if k == nil {
			k = &tachyon.Goroutine{ID: id, CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt, First: at + g.First}
			if g.Parent != 0 {
				k.Parent = j.id(f.process, g.Parent)
			}
			j.known[id] = k
			j.order = append(j.order, id)
		}
		k.Last = max(k.Last, at+g.Last)
		if n := len(k.Labels); n > 0 && len(k.Labels[n-1].Labels) > 0 && (len(g.Labels) == 0 || g.Labels[0].From > 0) {
			k.Labels = append(k.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{}})
		}
		for _, l := range g.Labels {
			k.Labels = append(k.Labels, tachyon.LabelSpan{From: at + l.From, Labels: l.Labels})
		}
	}
}

// metadata writes what is known of all files together.
func (j *joiner) metadata(files []*joinFile) error {
	if s := joinSessions(files); s != nil {
		if err := j.w.AddMetadata(tachyon.KindSession, s); err != nil {
			return err
		}
	}
	for id := range j.weights {
		if j.known[id] == nil {
			j.known[id] = &tachyon.Goroutine{ID: id}
			j.order = append(j.order, id)
		}
	}
	slices.Sort(j.order)
	for ids := range slices.Chunk(j.order, 1000) {
		var list []*tachyon.Goroutine
		for _, id := range ids {
			g := j.known[id]
			g.FirstWeight = j.weights[id]
			list = append(list, g)
		}
		if err := j.w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": list}); err != nil {
			return err
		}
	}
	if pcs := joinPCs(files); pcs != nil {
		return j.w.AddMetadata(tachyon.KindPCs, pcs)
	}
	return nil
}

// joinSessions adds up what the files say of their sessions; nil if any says
// nothing. What they do not agree in is left out.
func joinSessions(files []*joinFile) *tachyon.Session {
	var out tachyon.Session
	var end time.Time
	for i, f := range files {
		s := f.m.Session
		if s == nil {
			return nil
		}
		length := s.Duration
		if length == 0 { // it was not stopped
			length = time.Duration(min(f.end-f.h.Start, math.MaxInt64/1000)) * time.Microsecond
		}
		if to := s.Start.Add(length); to.After(end) {
			end = to
		}
		if i == 0 {
			out = *s
			out.Part, out.SessionStart = 0, time.Time{}
			continue
		}
		if f.process != files[0].process {
			out.PID = 0
			out.Host = same(out.Host, s.Host)
			out.Program = same(out.Program, s.Program)
			out.Module, out.Version = same(out.Module, s.Module), same(out.Version, s.Version)
			out.BuildID, out.Executable = same(out.BuildID, s.BuildID), same(out.Executable, s.Executable)
		}
		out.Error = cmp.Or(out.Error, s.Error)
		out.SourceReason = cmp.Or(out.SourceReason, s.SourceReason)
		out.Cost += s.Cost
		out.TicksAsked += s.TicksAsked
		out.TicksReached += s.TicksReached
		out.Samples += s.Samples
		out.Dropped += s.Dropped
		out.Torn += s.Torn
		out.MaxGoroutines = max(out.MaxGoroutines, s.MaxGoroutines)
		out.GoroutinesOmitted += s.GoroutinesOmitted
		out.LabelsOmitted += s.LabelsOmitted
		out.TicksRefused += s.TicksRefused
		out.Blind += s.Blind
	}
	out.Duration = end.Sub(out.Start)
	if sec := out.Duration.Seconds(); sec > 0 {
		out.RateReached = float64(out.TicksReached) / sec
	}
	return &out
}

func same(a, b string) string {
	if a == b {
		return a
	}
	return ""
}

// joinPCs adds up the leaf PCs of files of one executable; nil if they are not of
// one, or any has none.
func joinPCs(files []*joinFile) *tachyon.LeafPCs {
	sums := map[uint64]*tachyon.LeafPC{}
	first := files[0].m
	for _, f := range files {
		p, s := f.m.PCs, f.m.Session
		if p == nil || s == nil || s.BuildID != first.Session.BuildID ||
			p.TextStart != first.PCs.TextStart || p.TextSize != first.PCs.TextSize {
			return nil
		}
		for _, pc := range p.PCs {
			into := sums[pc.Addr]
			if into == nil {
				into = &tachyon.LeafPC{Addr: pc.Addr}
				sums[pc.Addr] = into
			}
			into.CPU += min(pc.CPU, math.MaxUint32-into.CPU)
			into.Wall += min(pc.Wall, math.MaxUint32-into.Wall)
			into.CPUTime += pc.CPUTime
			into.WallTime += pc.WallTime
		}
	}
	out := &tachyon.LeafPCs{TextStart: first.PCs.TextStart, TextSize: first.PCs.TextSize}
	for _, pc := range sums {
		out.PCs = append(out.PCs, *pc)
	}
	slices.SortFunc(out.PCs, func(a, b tachyon.LeafPC) int { return cmp.Compare(a.Addr, b.Addr) })
	return out
}

// OpenAll opens profiles and joins them; one file that is named twice counts once.
func OpenAll(paths []string, o Options) (*Input, error) {
	var inputs []*Input
	var seen []os.FileInfo
	for _, path := range paths {
		fi, err := os.Stat(path)
		if err == nil {
			if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(fi, other) }) {
				continue
			}
			seen = append(seen, fi)
		}
		in, err := Open(path, o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), closeAll(inputs))
		}
		inputs = append(inputs, in)
	}
	if len(inputs) == 0 {
		return nil, errors.New("no files")
	}
	return Join(inputs, o)
}
