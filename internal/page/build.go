package page

import (
	"math"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

const (
	firstWidth = 1000    // µs of a step at first
	maxSteps   = 1 << 16 // of a page
	maxEvents  = 4 << 20 // of a page
	someEvents = 2 << 20 // of a large page of a Server
)

// A builder makes the data of a page.
type builder struct {
	o        Options
	strings  stream.Table[string]
	frames   stream.Table[tachyon.Frame]
	nodes    stream.Table[node] // 0 is the empty stack
	states   stream.Table[state]
	groups   stream.Table[string]
	numbers  map[recordKey]uint32
	records  []record
	width    uint64 // µs of a step
	noted    uint64 // samples since the events were counted
	sides    []Side
	offset   uint64 // µs: where the present side begins
	lives    *lives
	tables   []sideTables
	several  bool     // there are two sides
	omitted  []string // what the page leaves out, as text
	number   []uint32 // what became of the records, by their first numbers
	moments  moments
	overview *overview
}

// A node is a frame on top of a stack.
type node struct{ caller, frame uint32 }

type state struct {
	name   string
	system bool
}

// A recordKey says what the samples of a record have in common.
type recordKey struct {
	side  uint8
	state uint16
	node  uint32
	group uint32
	key   idle.Key
}

// A record is the time of a group of goroutines in one stack and state.
type record struct {
	recordKey
	first   uint32 // its number before merge
	row     uint32 // of the overview
	idle    bool
	rests   bool // the goroutine waits there in the whole session
	apart   bool
	place   uint32
	samples int64
	rest    time.Duration // time that is at no moment of the session
	latency time.Duration // its share of the time on the clock, of the whole session
	course  course
}

func newBuilder(o Options) *builder {
	b := &builder{o: o, numbers: map[recordKey]uint32{}, width: firstWidth, lives: newLives(), overview: newOverview()}
	b.nodes.Of(node{math.MaxUint32, math.MaxUint32})
	return b
}

// A reading is one reading of a side's samples.
type reading struct {
	*builder
	side   uint8
	src    *stream.Source
	start  uint64 // µs
	groups *report.Groups
	stacks []uint32 // by stack of src: node + 1
	slots  []latestSample
	end    uint64 // µs since the start of the latest sample

	file    int // number of the file of parents + 1
	parents map[uint64]uint64

	counted int // number of the file whose ticks are counted + 1
	ticks   *Ticks

	some bool // not all samples are read, so slots do not know where a goroutine begins
}

// A latestSample is what a slot's latest sample was, with its record.
type latestSample struct {
	stack  uint32
	status tachyon.Status
	key    idle.Key
	known  bool
	record uint32
	found  bool // life is known
	life   *life
}

// read reads an input as the next side.
func (b *builder) read(in Input) error {
	if n := len(b.sides); n > 0 {
		b.offset = after(b.sides[n-1].To)
	}
	src, err := in.Open(report.Options{}.Stream())
	if err != nil {
		return err
	}
	r := &reading{builder: b, side: uint8(len(b.sides)), src: src, start: src.Header().Start, groups: report.NewGroups(src), ticks: &Ticks{Counts: []TickCounts{}}}
	if s := src.Metadata().Session; s != nil && s.Duration > 0 {
		b.widen(uint64(s.Duration.Microseconds()))
	}
	all, err := report.ReadAll(src, report.Options{Source: b.o.Source}, r.add)
	if err != nil {
		return err
	}
	for i := range b.records {
		if x := &b.records[i]; x.side == r.side {
			x.idle, x.rests, x.apart = all.Kind(x.key, x.place)
		}
	}
	b.overview.settle(r.side, all)
	if b.o.noLatency {
		return b.side(in, all.Profile, r)
	}
	again := &reading{builder: b, side: r.side, src: src, start: r.start, groups: report.NewGroups(src), some: true}
	if err = all.Latency(again.addLatency); err != nil {
		return err
	}
	return b.side(in, all.Profile, r)
}

// side adds the side that was read.
func (b *builder) side(in Input, p *profile.Profile, r *reading) error {
	side, err := b.describe(in, p)
	if err != nil {
		return err
	}
	if !b.o.noFindings {
		t, err := findAll(in, b.o.Source)
		if err == nil && t.Requests == nil {
			err = t.find("requests", in, b.o.Source)
		}
		if err != nil {
			return err
		}
		b.omitted = append(b.omitted, t.shorten()...)
		b.tables = append(b.tables, t)
	}
	side.StartUS = r.start
	side.From = b.offset
	side.To = b.offset + max(1, r.end, uint64(side.Duration.Microseconds()))
	if !r.src.Selects() { // otherwise time without samples is nothing special
		r.ticks.finish(r.src.Header().Interval, b.moments.count(b.width, side.From, side.To), side.To-side.From)
		side.Ticks = r.ticks
	}
	b.sides = append(b.sides, side)
	return nil
}

// after returns where a side begins on the axis if the one before it ends at a time: at a step also
// if steps become longer.
func after(end uint64) uint64 {
	align := uint64(firstWidth)
	for align < end/64 {
		align *= 2
	}
	return (end/align + 2) * align
}

// add adds a sample.
func (r *reading) add(s *stream.Sample, key idle.Key, place uint32) {
	n := r.record(s, key, place)
	x := &r.records[n]
	if s.NotSeen {
		x.rest += s.Wall
		return
	}
	x.samples++
	end, length := s.Time-r.start, uint64(s.Wall.Microseconds())
	if int64(end) < 0 {
		end = 0
	}
	before := length - min(length, end)
	x.rest += time.Duration(before) * time.Microsecond
	length -= before
	r.end = max(r.end, end)
	for (r.offset+end)/r.width >= maxSteps {
		r.double()
	}
	x.course.add(r.width, r.offset+end-length, r.offset+end)
	r.overview.add(x.row, r.offset+end-length, r.offset+end)
	if s.Interpreter != tachyon.Process { // these are not taken at ticks
		r.moments.add(r.width, r.offset+end)
	}
	r.countTicks()
	r.lives.add(r, &r.slots[s.Slot], s, n, r.offset+end-length, r.offset+end, before)
	if r.noted++; r.noted >= uint64(r.o.Events)/2 {
		r.compact()
	}
}

// countTicks adds the counts of a file when its first sample comes.
func (r *reading) countTicks() {
	n, f := r.src.File()
	if r.counted == n+1 {
		return
	}
	r.counted = n + 1
	from := f.Stream.Header().Start
	r.ticks.add(r.src.FileSession(), r.offset+from-min(from, r.start))
}

// addLatency adds a sample whose weight is its share of the time on the clock.
func (r *reading) addLatency(s *stream.Sample, key idle.Key) {
	n := r.record(s, key, 0)
	r.records[n].latency += s.Wall
}

// compact makes the steps longer if there are too many events.
func (b *builder) compact() {
	b.noted = 0
	for b.events() > b.o.Events {
		b.double()
	}
}

// events arranges the events and counts them.
func (b *builder) events() (n int) {
	for i := range b.records {
		c := &b.records[i].course
		c.arrange()
		n += len(c.events)
	}
	return n
}

func (b *builder) double() {
	for i := range b.records {
		b.records[i].course.double(b.width)
	}
	b.moments.double(b.width)
	b.width *= 2
}

// record returns the number of a sample's record.
func (r *reading) record(s *stream.Sample, key idle.Key, place uint32) uint32 {
	status := s.Status &^ tachyon.Moved
	var last *latestSample
	if !s.NotSeen && !r.some {
		for int(s.Slot) >= len(r.slots) {
			r.slots = append(r.slots, latestSample{})
		}
		if last = &r.slots[s.Slot]; s.First {
			*last = latestSample{}
		}
		if last.known && last.stack == s.Stack && last.status == status && last.key == key {
			return last.record
		}
	}
	session := r.src.Metadata().Session != nil
	st := state{r.src.State(status, s.Stack), session && s.Interpreter != tachyon.User}
	k := recordKey{side: r.side, node: r.node(s.Stack), key: key}
	name := "[no goroutine]"
	if s.NotSeen {
		st.system = st.name != profile.NotSeen
		name = "[not seen]"
	} else if !session || s.Interpreter != tachyon.Process {
		if name = r.groups.Of(s); st.system {
			name = "[runtime]"
		}
		if r.several {
			name, _, _ = strings.Cut(name, "\t") // two builds may have their files at different places
		}
	}
	k.state, k.group = uint16(r.states.Of(st)), r.builder.groups.Of(name)
	n, ok := r.numbers[k]
	if !ok {
		n = uint32(len(r.records))
		r.numbers[k] = n
		r.records = append(r.records, record{recordKey: k, first: n, place: place, row: r.overview.row(overviewKey{k.side, k.state, k.key, place})})
	}
	if last != nil {
		last.stack, last.status, last.key, last.known, last.record = s.Stack, status, key, true, n
	}
	return n
}

// node returns the node of a stack of the source. Frames of waits have no line: that would be the
// number of an object.
func (r *reading) node(stack uint32) uint32 {
	if stack == 0 {
		return 0
	}
	known := analyze.At(&r.stacks, stack, len(r.src.Stacks())) // of a caller too: its number is less
	if *known != 0 {
		return *known - 1
	}
	s := r.src.Stacks()[stack]
	f := r.src.Frames()[s.Frame]
	if f.File == "" {
		f.Line = 0
	}
	n := r.nodes.Of(node{r.node(s.Caller), r.frames.Of(f)})
	*known = n + 1
	return n
}
