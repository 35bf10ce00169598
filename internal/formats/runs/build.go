package runs

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// New reads all samples of a source twice. The source has creators, and labels if the session is to
// have them.
func New(src *stream.Source, o Options) (*Session, error) {
	b := &builder{src: src, o: &o, start: src.Header().Start}
	b.stacks = newStacks(src, &o)
	b.groups = newGroups(src, b.stacks)
	if err := b.measure(); err != nil {
		return nil, err
	}
	b.others = b.groups.plan(o.Limits)
	if err := b.collect(); err != nil {
		return nil, err
	}
	return b.session(), nil
}

type builder struct {
	src    *stream.Source
	o      *Options
	start  uint64 // of the source, µs
	stacks *stacks
	groups *groups
	others int // groups that share a track

	begin, end time.Duration // of the first and the last run, since start
	slots      []slot        // of the present file
	file       int           // its number + 1

	tracks          []*track
	own             map[thread]*track
	grouped         map[*group]*track
	rest            *track // of the groups that share one
	steps           steps
	alive, runnable *level
}

// thread identifies a goroutine.
type thread struct {
	id          uint64
	interpreter uint32
}

// A slot is the state of a goroutine of the present file.
type slot struct {
	group  *group
	track  *track
	place  place
	stack  uint32 // of the source
	labels *stream.Labels
	known  bool
}

// A track is a Track that grows.
type track struct {
	Track
	group  *group
	stack  uint32         // of the last run, in the source
	labels *stream.Labels // of the last span
	vague  bool           // the goroutine had not started yet when it was named
}

// farthest bounds all times, so that sums of several fit a Duration: some 70 years.
const farthest = math.MaxInt64 / 4

// stretch returns the time for which a sample stands, since the start of the source.
func (b *builder) stretch(s *stream.Sample) (begin, end time.Duration) {
	if d := int64(s.Time - b.start); d >= 0 {
		end = min(reader.Micros(uint64(d)), farthest)
	} else {
		end = -min(reader.Micros(uint64(-d)), farthest)
	}
	return max(end-min(s.Wall, farthest), -farthest), end
}

// slot returns the state of a sample's goroutine.
func (b *builder) slot(s *stream.Sample) *slot {
	if file, _ := b.src.File(); b.file != file+1 {
		b.file = file + 1
		clear(b.slots)
	}
	if n := b.src.Slots() - len(b.slots); n > 0 {
		b.slots = append(b.slots, make([]slot, n)...)
	}
	return &b.slots[s.Slot]
}

// measure reads all samples and counts what each group needs.
func (b *builder) measure() error {
	first := true
	for s, err := range b.src.Samples() {
		if err != nil {
			return err
		}
		if s.NotSeen {
			b.groups.find(s)
			continue
		}
		sl, p := b.slot(s), b.stacks.of(s)
		if !sl.known {
			sl.group = b.groups.find(s)
			b.groups.add(sl.group, s)
			sl.group.main = sl.group.main || isMain(s)
		}
		g := sl.group
		if g.vague() {
			g.entry = b.stacks.entry(s.Stack)
		}
		if !sl.known || sl.place != p || sl.labels != s.Labels || b.another(s, sl.stack) {
			g.runs++
			g.depth += int(b.stacks.list[p.stack].Depth)
		}
		sl.known, sl.place, sl.stack, sl.labels = true, p, s.Stack, s.Labels
		g.wall += float64(s.Wall)
		begin, end := b.stretch(s)
		if first {
			b.begin, b.end, first = begin, end, false
		}
		b.begin, b.end = min(b.begin, begin), max(b.end, end)
	}
	b.begin = min(b.begin, 0)
	return nil
}

// another reports whether a sample is of another wait than the one before, given the stack of that
// one in the source. The place is the same. Waits for different objects have different stacks in
// the source, if it knows objects.
func (b *builder) another(s *stream.Sample, stack uint32) bool {
	return b.o.Waits && (s.Status&tachyon.Moved != 0 || s.Stack != stack)
}

func isMain(s *stream.Sample) bool { return s.Status&tachyon.MainThread != 0 }

// collect reads all samples and makes runs.
func (b *builder) collect() error {
	b.own, b.grouped = map[thread]*track{}, map[*group]*track{}
	b.file = 0
	length := b.end - b.begin
	b.alive, b.runnable = newLevel(length), newLevel(length)
	b.steps = newSteps(length, b.o, &b.stacks.list)
	for s, err := range b.src.Samples() {
		if err != nil {
			return err
		}
		if s.NotSeen {
			b.steps.spread(b.track(s, b.groups.find(s)), b.stacks.of(s), s.Wall, length)
			continue
		}
		sl, p := b.slot(s), b.stacks.of(s)
		if !sl.known {
			sl.group = b.groups.find(s)
			sl.track, sl.known = b.track(s, sl.group), true
		}
		begin, end := b.stretch(s)
		begin, end = begin-b.begin, end-b.begin
		if sl.group.kind != ofProcess {
			b.alive.add(begin, end)
			if b.stacks.states.List[p.state] == stream.Runnable {
				b.runnable.add(begin, end)
			}
		}
		if sl.track.Step != 0 {
			b.steps.add(sl.track, p, begin, end, s)
			continue
		}
		if sl.track.vague {
			b.name(sl.track, s)
		}
		b.run(sl.track, p, begin, s)
		b.label(sl.track, begin, end, s.Labels)
	}
	return nil
}

// track returns the track of a sample's goroutine, given its group.
func (b *builder) track(s *stream.Sample, g *group) *track {
	switch {
	case g.own:
		key := thread{s.Goroutine, s.Interpreter}
		t := b.own[key]
		if t == nil {
			t = b.add(g, Track{ID: s.Goroutine, Goroutines: 1, Main: isMain(s)})
			b.name(t, s)
			b.own[key] = t
		}
		return t
	case g.rest:
		if b.rest == nil {
			b.rest = b.add(g, Track{Step: 1})
			b.rest.ID = g.first
		}
		return b.rest
	}
	t := b.grouped[g]
	if t == nil {
		t = b.add(g, Track{Name: g.trackName(), ID: g.first, Goroutines: g.count, Main: g.main, Step: 1})
		if g.kind == ofProcess {
			t.Goroutines = 0
		}
		b.grouped[g] = t
	}
	return t
}

// name names the track of a sample's goroutine.
func (b *builder) name(t *track, s *stream.Sample) {
	entry := b.stacks.entry(s.Stack)
	t.Name, t.vague = t.group.goroutineName(s.Goroutine, entry), vague(entry)
}

func (b *builder) add(g *group, t Track) *track {
	b.tracks = append(b.tracks, &track{Track: t, group: g})
	return b.tracks[len(b.tracks)-1]
}

// run adds a sample to a goroutine's runs.
func (b *builder) run(t *track, p place, begin time.Duration, s *stream.Sample) {
	if n := len(t.Runs); n > 0 {
		last := &t.Runs[n-1]
		begin = max(begin, last.End())
		if last.Stack == p.stack && last.State == p.state && begin == last.End() && !b.another(s, t.stack) {
			last.Wall, last.CPU = plus(last.Wall, s.Wall), plus(last.CPU, s.CPU())
			return
		}
	}
	t.stack = s.Stack
	t.Runs = append(t.Runs, Run{Begin: begin, Wall: s.Wall, CPU: s.CPU(), Stack: p.stack, State: p.state})
}

// label adds a sample's labels to a goroutine's spans.
func (b *builder) label(t *track, begin, end time.Duration, l *stream.Labels) {
	if n := len(t.Labels); n > 0 {
		last := &t.Labels[n-1]
		begin = max(begin, last.End)
		end = max(begin, end)
		if l != nil && t.labels != nil && l.Key == t.labels.Key && begin == last.End {
			last.End = end
			return
		}
	}
	if t.labels = l; l != nil {
		t.Labels = append(t.Labels, Span{begin, end, l.Map()})
	}
}

// session returns the result.
func (b *builder) session() *Session {
	b.steps.finish()
	h := b.src.Header()
	s := &Session{
		Start:    time.UnixMicro(int64(min(h.Start, math.MaxInt64))).Add(b.begin),
		End:      b.end - b.begin,
		Interval: reader.Micros(h.Interval),
		Metadata: b.src.Metadata(),
		Frames:   b.stacks.frames.List(), Stacks: b.stacks.list, States: b.stacks.states.List,
		Alive: b.alive.means(), Runnable: b.runnable.means(),
	}
	if m := s.Metadata.Session; m != nil && !m.Start.IsZero() {
		s.Start = m.Start.Add(b.begin)
	}
	b.describe(s)
	slices.SortStableFunc(b.tracks, func(x, y *track) int {
		return cmp.Or(order(x.Main, y.Main), order(x.group.kind == ofProgram, y.group.kind == ofProgram),
			order(x != b.rest, y != b.rest), cmp.Compare(first(x), first(y)), cmp.Compare(x.ID, y.ID))
	})
	for _, t := range b.tracks {
		s.Tracks = append(s.Tracks, t.Track)
		if n := len(t.Runs); n > 0 && t.Step == 0 {
			s.End = max(s.End, t.Runs[n-1].End())
		}
	}
	return s
}

// order puts what is true first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// first returns when a track begins.
func first(t *track) time.Duration {
	if len(t.Runs) == 0 {
		return 0
	}
	return t.Runs[0].Begin
}
