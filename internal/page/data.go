package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// Data is what a page shows. It is complete when Build returns it, and may be used by several
// goroutines at once.
type Data struct {
	Head   Head
	Pieces []Piece
	limit  int64
}

// A Head is what the page knows before it reads the pieces.
type Head struct {
	Version int    `json:"version"` // of the pieces
	Title   string `json:"title"`
	Sides   []Side `json:"sides"`
	Width   uint64 `json:"width_us"` // of a step of time
	Steps   uint64 `json:"steps"`
	// LeftOut says what the page does not show because it would be too large.
	LeftOut []string `json:"left_out"`
	Live    bool     `json:"live,omitempty"`   // a server sends the pieces
	Sketch  string   `json:"sketch,omitempty"` // which part of the files this is, if all are still being read
	// NoLatency says that the weight latency is left out.
	NoLatency bool `json:"no_latency,omitempty"`
}

// version is that of the pieces. The script and the server are of one build, so it only helps to
// find mistakes.
const version = 1

// A Side is one of the profiles. Its numbers are those of gotach report.
type Side struct {
	Name     string        `json:"name"`
	Program  string        `json:"program"`
	Start    time.Time     `json:"start"`
	StartUS  uint64        `json:"start_us"` // since 1970; From is this moment
	From     uint64        `json:"from_us"`  // where it begins and ends on the page's axis of time
	To       uint64        `json:"to_us"`
	Duration time.Duration `json:"duration_ns"`

	Samples    int64           `json:"samples"`
	Goroutines int             `json:"goroutines"`
	Total      time.Duration   `json:"total_ns"` // of goroutines
	CPU        time.Duration   `json:"cpu_ns"`   // of goroutines
	NoCore     time.Duration   `json:"no_core_ns"`
	Idle       time.Duration   `json:"idle_ns"`
	Apart      []profile.Apart `json:"apart,omitempty"`
	Facts      []Fact          `json:"facts"` // about the recording
	Ticks      *Ticks          `json:"ticks,omitempty"`
}

// A Fact is something to know about a recording, such as {"Go", "go1.26.8 linux/amd64"}.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// describe returns what is known of a side as a whole, without its place on the axis. The profile
// has idle time.
func (b *builder) describe(in Input, p *profile.Profile) (Side, error) {
	r, err := profile.New(p, profile.ReportOptions{By: profile.ByState})
	if err != nil {
		return Side{}, err
	}
	s := Side{
		Name: in.Name, Program: p.Program, Start: p.Start, Duration: p.Duration, Samples: r.Samples, Goroutines: r.Goroutines,
		Total: r.Total - r.Elsewhere, CPU: r.TotalCPU - r.Elsewhere, NoCore: r.NoCore, Idle: r.Idle, Apart: r.Apart, Facts: []Fact{},
	}
	if p.Metadata == nil || p.Metadata.Session == nil {
		return s, nil
	}
	m := p.Metadata.Session
	fact := func(name, format string, args ...any) {
		s.Facts = append(s.Facts, Fact{name, fmt.Sprintf(format, args...)})
	}
	fact("Go", "%s %s/%s, GOMAXPROCS %d", m.GoVersion, m.GOOS, m.GOARCH, m.GOMAXPROCS)
	if m.Module != "" {
		fact("module", "%s %s", m.Module, m.Version)
	}
	fact("process", "%d on %s", m.PID, m.Host)
	fact("source", "%s", m.Source)
	if m.RateReached > 0 { // otherwise nobody knows yet
		fact("ticks", "%.0f of %d a second", m.RateReached, m.Rate)
	}
	if late := m.TicksLate(); late > 0 {
		fact("ticks too late", "%d", late)
	}
	if m.TicksForBudget > 0 {
		fact("ticks left out for the budget", "%d", m.TicksForBudget)
	}
	if m.TicksIdle > 0 {
		fact("ticks left out while nothing ran", "%d", m.TicksIdle)
	}
	if m.Dropped > 0 {
		fact("samples dropped", "%d", m.Dropped)
	}
	if m.Unwritten > 0 {
		fact("samples not written", "%v at the end of a file: the disk was full or failed", m.Unwritten)
	}
	if m.Throttled > 0 {
		of := ""
		if m.ThrottledOf > 0 {
			of = fmt.Sprintf(", of %v in all: not known how much of it in this part", m.ThrottledOf)
		}
		fact("throttled by the container's quota", "%v in %d periods%s", m.Throttled, m.ThrottledPeriods, of)
	}
	if m.Error != "" && !in.Live {
		fact("error", "%s", m.Error)
	}
	return s, nil
}

// finish makes the data of what was read.
func (b *builder) finish(inputs []Input) (*Data, error) {
	source, err := b.sources()
	if err != nil {
		return nil, err
	}
	rest := []Piece{source}
	if !b.o.noFindings {
		tables, err := b.tablesPiece(inputs)
		if err != nil {
			return nil, err
		}
		rest = append(rest, tables)
	}
	b.merge()
	b.compact()
	d := &Data{limit: b.o.MaxSize, Head: Head{Version: version, Sides: b.sides, LeftOut: []string{}, NoLatency: b.o.noLatency}}
	names := []string{}
	for _, s := range b.sides {
		names = append(names, s.Name)
	}
	d.Head.Title = names[0]
	if len(names) > 1 {
		d.Head.Title += " – " + names[1]
	}
	for {
		d.Head.Width = b.width
		d.Head.Steps = (b.sides[len(b.sides)-1].To + b.width - 1) / b.width
		core, err := b.core()
		if err != nil {
			return nil, err
		}
		goroutines, err := b.lives.piece(b.number)
		if err != nil {
			return nil, err
		}
		overview, err := b.overviewPiece()
		if err != nil {
			return nil, err
		}
		d.Pieces = append([]Piece{core, goroutines, overview}, rest...)
		d.Head.LeftOut = b.leftOut()
		size, err := d.size()
		if err != nil {
			return nil, err
		}
		if size <= b.o.MaxSize {
			return d, nil
		}
		if n := len(goroutines.Bytes); n > 5000 && n > len(core.Bytes)/2 {
			b.lives.shrink()
			continue
		}
		if d.Head.Steps <= 1 {
			return nil, fmt.Errorf("%w: it needs %d bytes, the limit is %d", ErrTooLarge, size, b.o.MaxSize)
		}
		b.double()
	}
}

// tablesPiece returns what the page shows as tables, of each side and of their difference.
func (b *builder) tablesPiece(inputs []Input) (Piece, error) {
	compared, err := compare(inputs)
	if err != nil {
		return Piece{}, err
	}
	return newPiece("tables", map[string]any{"sides": b.tables, "diff": compared}, nil)
}

// leftOut says what is not in the data because of its size.
func (b *builder) leftOut() []string {
	list := []string{}
	if b.width > firstWidth {
		list = append(list, fmt.Sprintf("time is in steps of %v", time.Duration(b.width)*time.Microsecond))
	}
	return append(append(list, b.lives.leftOut()...), b.omitted...) // not nil: the script expects a list
}

// merge adds records up that differ only in their keys, and puts all in order.
func (b *builder) merge() {
	slices.SortFunc(b.records, func(x, y record) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.side, y.side), cmp.Compare(x.group, y.group), cmp.Compare(x.state, y.state), cmp.Compare(number(x.idle), number(y.idle)), cmp.Compare(number(x.rests), number(y.rests)), cmp.Compare(number(x.apart), number(y.apart)))
	})
	b.number = make([]uint32, len(b.records))
	out := b.records[:0]
	for _, r := range b.records {
		r.key = 0
		if n := len(out); n > 0 && out[n-1].recordKey == r.recordKey && out[n-1].idle == r.idle && out[n-1].rests == r.rests && out[n-1].apart == r.apart {
			last := &out[n-1]
			b.number[r.first] = uint32(n - 1)
			last.samples += r.samples
			last.rest += r.rest
			last.latency += r.latency
			last.course.events = append(last.course.events, r.course.events...)
			continue
		}
		b.number[r.first] = uint32(len(out))
		out = append(out, r)
	}
	clear(b.records[len(out):])
	b.records = out
	b.numbers = nil
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// core returns the piece with all stacks and the time of each.
func (b *builder) core() (Piece, error) {
	type function struct{ name, file string }
	var functions stream.Table[function]
	var pkgs, stateClass, stateCPU, code []int64
	var frameFn, frameLine []int64
	var fnName, fnFile []int64
	b.strings = stream.Table[string]{}
	for _, f := range b.frames.List {
		name := profile.FuncName(f.Func)
		if name == "" {
			name = "?"
		}
		key := function{name, f.File}
		if len(b.sides) > 1 {
			key.file = "" // two builds may have their files at different places
		}
		n := functions.Of(key)
		if int(n) == len(fnName) {
			fnName = append(fnName, int64(b.strings.Of(name)))
			fnFile = append(fnFile, int64(b.strings.Of(f.File)))
			pkgs = append(pkgs, int64(b.strings.Of(profile.Package(f.Func))))
			code = append(code, int64(profile.CodeOf(&f)))
		}
		frameFn, frameLine = append(frameFn, int64(n)), append(frameLine, int64(max(0, f.Line)))
	}
	var nodeCaller, nodeFrame []int64
	for i, n := range b.nodes.List[1:] {
		nodeCaller = append(nodeCaller, int64(i+1)-int64(n.caller))
		nodeFrame = append(nodeFrame, int64(n.frame))
	}
	states := []string{}
	for _, s := range b.states.List {
		states = append(states, s.name)
		stateClass, stateCPU = append(stateClass, int64(classOf(s.name, s.system))), append(stateCPU, number(onCPU(s.name)))
	}
	r := b.columns()
	r = append(r,
		column{"fnName", fnName}, column{"fnFile", fnFile}, column{"fnPackage", pkgs}, column{"fnCode", code},
		column{"frameFn", frameFn}, column{"frameLine", frameLine}, column{"nodeCaller", nodeCaller}, column{"nodeFrame", nodeFrame},
		column{"stateClass", stateClass}, column{"stateCPU", stateCPU})
	r = append(r, b.gaps()...)
	return newPiece("core", map[string]any{
		"strings": b.strings.List, "states": states, "groups": b.groups.List, "classes": classNames[:],
	}, r)
}

// columns returns the records. Times are in µs, apart from what is left to the nanosecond.
func (b *builder) columns() []column {
	var nodes, sides, groups, states, idle, rests, apart, samples, latency, rest, restNano, counts []int64
	var events eventColumns
	last := int64(0)
	for i := range b.records {
		r := &b.records[i]
		nodes, last = append(nodes, int64(r.node)-last), int64(r.node)
		sides, groups, states = append(sides, int64(r.side)), append(groups, int64(r.group)), append(states, int64(r.state))
		idle, rests, samples = append(idle, number(r.idle)), append(rests, number(r.rests)), append(samples, r.samples)
		apart, latency = append(apart, number(r.apart)), append(latency, int64(r.latency))
		rest, restNano = append(rest, r.rest.Microseconds()), append(restNano, int64(r.rest%time.Microsecond))
		counts = append(counts, int64(len(r.course.events)))
		events.add(&r.course)
	}
	return []column{
		{"recNode", nodes}, {"recSide", sides}, {"recGroup", groups}, {"recState", states}, {"recIdle", idle}, {"recRests", rests}, {"recApart", apart}, {"recSamples", samples},
		{"recLatency", latency}, {"recRest", rest}, {"recRestNano", restNano}, {"recEvents", counts}, {"evStep", events.steps}, {"evDiff", events.diffs}, {"evPart", events.parts},
	}
}
