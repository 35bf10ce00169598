package perlnytprof

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/nytprof"
)

// What stands in for places that have no file.
const (
	rootsFile = "(goroutine roots)" // what called a goroutine's first function
	rootsSub  = "runtime::goexit"
	noFile    = "(no source)" // functions without one, each with a line of its own
)

// ticksPerSecond is perl's own: a tick is 100 ns.
const ticksPerSecond = 10_000_000

// maxLine is the last line of a file that Perl's tools show. They index by line,
// and so warn about larger ones as damage; what is there counts for this one.
const maxLine = 1<<16 - 2

// fromProfile makes of a sampled profile what the Perl tools show well: a
// function is a sub, a sample a statement that took the sample's wall time.
//
// The number of calls of a sub from a line is that of samples that saw it.
func fromProfile(p *profile.Profile, o Options) *nytprof.Data {
	b := builder{
		p: p, source: o.Source,
		data:   &nytprof.Data{Calls: new(nytprof.Call), Sampled: true},
		files:  make(map[string]*nytprof.File),
		subs:   make(map[string]*nytprof.Sub),
		seen:   make(map[*nytprof.Sub]extent),
		last:   make(map[*nytprof.File]uint32),
		edges:  make(map[edge]*nytprof.Caller),
		depths: make(map[*nytprof.Sub]uint32),
		passed: make(map[edge]bool),
	}
	b.roots = b.fake(rootsFile)
	b.roots.Source[1] = rootsFile + "\n"
	b.frames = make([]place, len(p.Frames))
	for i := range p.Records {
		b.record(&p.Records[i])
	}
	b.finish()
	if !o.NoSource {
		b.addSource()
	}
	return b.data
}

// builder sums up records.
type builder struct {
	p      *profile.Profile
	source func(string, []profile.Frame) []byte
	data   *nytprof.Data

	frames []place // of p.Frames, as far as seen
	files  map[string]*nytprof.File
	subs   map[string]*nytprof.Sub
	seen   map[*nytprof.Sub]extent
	last   map[*nytprof.File]uint32 // line seen
	edges  map[edge]*nytprof.Caller
	order  []edge // in which edges were first seen
	roots  *nytprof.File
	blank  *nytprof.File // noFile
	ticks  int64         // of all samples

	depths map[*nytprof.Sub]uint32 // scratch of record: how often a sub is on the stack
	passed map[edge]bool           // scratch: edges of the stack
}

// place is a frame as NYTProf has it.
type place struct {
	sub  *nytprof.Sub
	fid  *nytprof.File
	line uint32
}

type edge struct {
	fid, line      uint32
	caller, called *nytprof.Sub // a nil caller is rootsSub
}

func (b *builder) file(name string) *nytprof.File {
	f := b.files[name]
	if f == nil {
		f = &nytprof.File{FID: uint32(len(b.data.Files) + 1), Name: oneLine.Replace(name), Flags: nytprof.FlagViaStmt | nytprof.FlagViaSub, Lines: make(map[uint32]nytprof.LineTime)}
		b.files[name] = f
		b.data.Files = append(b.data.Files, f)
	}
	return f
}

func (b *builder) fake(name string) *nytprof.File {
	f := b.file(name)
	f.Flags |= nytprof.FlagHasSource | nytprof.FlagSaveSource | nytprof.FlagFake
	f.Source = make(map[uint32]string)
	return f
}

// place returns where a frame is.
func (b *builder) place(id uint32) place {
	if at := b.frames[id]; at.sub != nil {
		return at
	}
	f := b.p.Frames[id]
	name := perlName(f.Func)
	sub := b.subs[name]
	if sub == nil {
		sub = &nytprof.Sub{Name: name}
		b.subs[name] = sub
		b.data.Subs = append(b.data.Subs, sub)
	}
	at := place{sub: sub}
	if f.File == "" {
		if b.blank == nil {
			b.blank = b.fake(noFile)
		}
		at.fid = b.blank
		if sub.FID == b.blank.FID {
			at.line = sub.First
		} else {
			at.line = uint32(min(len(b.blank.Source)+1, maxLine))
			b.blank.Source[at.line] = f.Func + "\n"
		}
	} else {
		at.fid = b.file(f.File)
		at.line = uint32(min(max(f.Line, 1), maxLine))
	}
	if sub.FID == 0 {
		sub.FID = at.fid.FID
	}
	if sub.FID == at.fid.FID {
		seen := b.seen[sub]
		seen.add(at.line)
		seen.add(min(uint32(b.p.StartLine(id)), at.line))
		b.seen[sub] = seen
		sub.First, sub.Last = seen.first, seen.last
	}
	b.last[at.fid] = max(b.last[at.fid], at.line)
	b.frames[id] = at
	return at
}

// record adds the samples of one stack.
func (b *builder) record(r *profile.Record) {
	stack := r.Stack
	if n := len(stack); n > 1 && b.p.Frames[stack[n-1]].Func == "runtime.goexit" {
		stack = stack[:n-1] // the roots' caller anyway
	}
	if len(stack) == 0 {
		return
	}
	ticks, count := int64(r.Wall/100+(r.Wall%100+50)/100), max(r.Count, 1)
	b.ticks += ticks

	seconds := float64(ticks) / ticksPerSecond
	clear(b.depths)
	clear(b.passed)
	call := b.data.Calls
	from := edge{fid: b.roots.FID, line: 1}
	for i, id := range slices.Backward(stack) {
		at := b.place(id)
		from.called = at.sub
		c := b.caller(from)
		depth := b.depths[at.sub]
		first := !b.passed[from]
		if first {
			c.Count += count
		}
		if depth == 0 {
			c.Incl += seconds
		} else if first {
			c.Reci += seconds
		}
		c.Depth = max(c.Depth, depth)
		if i == 0 {
			c.Excl += seconds
		}
		b.depths[at.sub]++
		b.passed[from] = true

		next := called(call, at.sub.Name)
		next.Incl += float64(ticks)
		next.Count += count
		if i == 0 {
			next.Excl += float64(ticks)
			t := at.fid.Lines[at.line]
			t.Ticks += ticks
			t.Count += count
			at.fid.Lines[at.line] = t
		}
		call = next
		from = edge{fid: at.fid.FID, line: at.line, caller: at.sub}
	}
}

// caller returns the sums of an edge.
func (b *builder) caller(e edge) *nytprof.Caller {
	c := b.edges[e]
	if c == nil {
		c = &nytprof.Caller{FID: e.fid, Line: e.line, Sub: rootsSub}
		if e.caller != nil {
			c.Sub = e.caller.Name
		}
		b.edges[e] = c
		b.order = append(b.order, e)
	}
	return c
}

// called returns what a call calls in a sub.
func called(call *nytprof.Call, sub string) *nytprof.Call {
	next := call.Calls[sub]
	if next == nil {
		if call.Calls == nil {
			call.Calls = make(map[string]*nytprof.Call)
		}
		next = &nytprof.Call{Sub: sub}
		call.Calls[sub] = next
	}
	return next
}

func (b *builder) finish() {
	for _, e := range b.order {
		e.called.Callers = append(e.called.Callers, *b.edges[e])
	}
	d := b.data
	// Perl's tools take percentages of a process's life, and warn where
	// statements took longer, if only by rounding: in a parallel program wall
	// time does.
	total := float64(max(b.ticks, 1)) / ticksPerSecond
	start := float64(b.p.Start.UnixNano()) / 1e9
	end := start + total
	for end-start < total {
		end = math.Nextafter(end, math.Inf(1))
	}
	d.Processes = []nytprof.Process{{PID: b.pid(), Start: start, End: end}}
	d.Attributes = b.attributes()
	for _, o := range options {
		d.Options = append(d.Options, nytprof.Option{Key: o[0], Value: o[1]})
	}
}

// addSource adds the texts of files, and to functions the lines that no sample saw.
func (b *builder) addSource() {
	in := map[*nytprof.File][]profile.Frame{}
	for id, at := range b.frames {
		if at.sub != nil && b.source != nil {
			in[at.fid] = append(in[at.fid], b.p.Frames[id])
		}
	}
	left := maxSource
	for _, f := range b.data.Files {
		if f.Flags&nytprof.FlagFake != 0 {
			continue
		}
		f.Flags |= nytprof.FlagHasSource | nytprof.FlagSaveSource
		var src []byte
		if frames := in[f]; len(frames) > 0 && left > 0 {
			src = b.source(frames[0].File, frames)
			left -= len(src)
		}
		if src == nil {
			f.Source = blankLines(f.Name, b.last[f])
			continue
		}
		f.Source = sourceLines(src)
		if filepath.Ext(f.Name) != ".go" {
			continue
		}
		functions := parseFunctions(src)
		for _, s := range b.data.Subs {
			if s.FID == f.FID {
				e := functions.around(s.Name, b.seen[s])
				s.First, s.Last = min(e.first, maxLine), min(e.last, maxLine)
			}
		}
	}
}

func (b *builder) pid() uint32 {
	if m := b.p.Metadata; m != nil && m.Session != nil && m.Session.PID > 0 {
		return uint32(m.Session.PID)
	}
	return 1
}

// Attributes of ours, which Perl's tools ignore.
const (
	attrDuration   = "x-gotach-duration-ns"
	attrInterval   = nytprof.GotachInterval
	attrGoroutines = "x-gotach-goroutines"
)

func (b *builder) attributes() []nytprof.Attribute {
	application, version := cmp.Or(b.p.Program, "a program"), "unknown"
	if m := b.p.Metadata; m != nil && m.Session != nil && m.Session.GoVersion != "" {
		version = m.Session.GoVersion
	}
	i := func(v int64) string { return strconv.FormatInt(v, 10) }
	var list []nytprof.Attribute
	for _, a := range [][2]string{
		{"basetime", i(b.p.Start.Unix())},
		{"application", toPerl.Replace(application)},
		{"perl_version", toPerl.Replace(version)},
		{"nv_size", "8"},
		{"xs_version", "6.12"}, // the format's, for nytprofmerge
		{"PL_perldb", "0"},
		{"clock_id", "1"},
		{"ticks_per_sec", i(ticksPerSecond)},
		{attrDuration, i(int64(b.p.Duration))},
		{attrInterval, i(int64(b.p.Interval))},
		{attrGoroutines, i(int64(b.p.Goroutines))},
	} {
		list = append(list, nytprof.Attribute{Key: a[0], Value: a[1]})
	}
	return list
}

// options are what perl's profiler would have run with to measure the same.
var options = [][2]string{
	{"usecputime", "0"}, {"subs", "1"}, {"blocks", "0"}, {"leave", "1"}, {"expand", "0"}, {"trace", "0"},
	{"use_db_sub", "0"}, {"compress", "0"}, {"clock", "1"}, {"stmts", "1"}, {"slowops", "0"}, {"findcaller", "0"},
	{"forkdepth", "-1"}, {"perldb", "0"}, {"nameevals", "1"}, {"nameanonsubs", "1"}, {"calls", "1"}, {"evals", "0"},
}
