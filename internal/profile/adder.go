package profile

import (
	"math"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// An adder adds up the samples of a source.
type adder struct {
	src     *stream.Source
	d       Detail
	session bool // gotach recorded the samples
	passing bool // records are passed on, not kept

	recent []recent // by stack
	cells  []cell
	heads  []uint32 // by stack: its first cell + 1
	places stream.Table[place]

	sums   []sum
	index  map[sumKey]uint32 // numbers of the sums; without goroutines, labels and keys it is empty, and sums[i] is of places[i]
	slots  []cached
	stacks [][]uint32        // of records
	sets   map[string]uint32 // label sets by their key
	labels []labelSet
	groups stream.Table[string] // sumKey.goroutine is the number + 1
	series *series              // nil: not asked for
}

// A recent has the sum of the latest sample with a stack, and what that sum does not have yet of
// the latest samples. Most samples with a stack belong to one sum. So adding one takes one access
// to memory that is not in the caches, instead of one each for its place, its key and its sum.
type recent struct {
	interpreter uint32
	key         uint32
	sum         uint32         // number + 1; 0: none
	status      tachyon.Status // without Moved
	count       uint32
	wall        time.Duration
}

// A cell is the place of the samples with a stack, an interpreter and a status.
type cell struct {
	interpreter uint32
	status      tachyon.Status // without Moved
	place       uint32
	next        uint32 // the stack's next cell + 1
}

// A place is a stack in a state.
type place struct {
	stack   uint32
	system  bool // as in Record
	process bool // time of no goroutine
	state   string
}

// A sumKey tells which samples a sum is of.
type sumKey struct {
	goroutine uint64 // or the number of a group
	place     uint32
	labels    uint32
	key       uint32 // of Detail.Key
}

// A sum is a record that grows.
type sum struct {
	sumKey
	count     int64
	wall, cpu time.Duration
}

// A cached has the sum of the latest sample of a slot.
type cached struct {
	slot   uint32
	place  uint32
	key    uint32
	sum    uint32 // number + 1; 0: none
	labels *stream.Labels
}

// newAdder returns an adder for the samples of a source.
func newAdder(src *stream.Source, d Detail) *adder {
	a := &adder{
		src: src, d: d, session: src.Metadata().Session != nil,
		index: map[sumKey]uint32{}, sets: map[string]uint32{"": 0}, labels: []labelSet{{}},
	}
	if d.Series {
		a.series = newSeries(src)
		a.series.sums = func() []sum { a.settle(); return a.sums }
	}
	return a
}

// add adds a sample.
func (a *adder) add(s *stream.Sample) {
	if s.NotSeen {
		p := place{stack: s.Stack, state: a.src.State(0, s.Stack)}
		p.process = p.state != NotSeen // such as [idle]
		p.system = p.process
		n := a.place(p)
		switch {
		case a.d.Group != nil && !p.process:
			n = a.sum(sumKey{place: n, goroutine: a.group(s)})
		case a.detailed():
			n = a.sum(sumKey{place: n})
		}
		a.sums[n].wall = add(a.sums[n].wall, s.Wall)
		if a.series != nil { // nobody knows when it was
			a.series.leaveOut(n, s.Wall)
		}
		return
	}
	if int(s.Stack) >= len(a.heads) {
		more := len(a.src.Stacks()) - len(a.heads)
		a.heads = append(a.heads, make([]uint32, more)...)
		a.recent = append(a.recent, make([]recent, more)...)
	}
	n := uint32(0)
	if a.slotted() {
		n = a.detail(s, a.find(s))
		a.sums[n].add(1, s.Wall, s.Status)
	} else {
		n = a.later(s)
	}
	if a.series != nil {
		a.series.add(n, s)
	}
}

// add adds samples of a status that stand for wall altogether.
func (x *sum) add(count int64, wall time.Duration, status tachyon.Status) {
	x.count += count
	x.wall = add(x.wall, wall)
	if status&tachyon.OnCPU != 0 {
		x.cpu = add(x.cpu, wall)
	}
}

// later notes a sample for settle. It returns the number of the sum to which the sample belongs.
func (a *adder) later(s *stream.Sample) uint32 {
	key := uint32(0)
	if a.d.Key != nil {
		key = a.d.Key(s)
	}
	r, status := &a.recent[s.Stack], s.Status&^tachyon.Moved
	if r.sum == 0 || r.status != status || r.interpreter != s.Interpreter || r.key != key || r.count == math.MaxUint32 {
		a.settleOne(r)
		n := a.find(s)
		if a.d.Key != nil {
			n = a.sum(sumKey{place: n, key: key})
		}
		*r = recent{interpreter: s.Interpreter, key: key, sum: n + 1, status: status}
	}
	r.count++
	r.wall = add(r.wall, s.Wall)
	return r.sum - 1
}

// settle adds to the sums what they do not have yet.
func (a *adder) settle() {
	for i := range a.recent {
		a.settleOne(&a.recent[i])
	}
}

func (a *adder) settleOne(r *recent) {
	if r.count > 0 {
		a.sums[r.sum-1].add(int64(r.count), r.wall, r.status)
		r.count, r.wall = 0, 0
	}
}

// find returns the place of a sample.
func (a *adder) find(s *stream.Sample) uint32 {
	status := s.Status &^ tachyon.Moved
	for n := a.heads[s.Stack]; n != 0; n = a.cells[n-1].next {
		if c := &a.cells[n-1]; c.status == status && c.interpreter == s.Interpreter {
			return c.place
		}
	}
	n := a.place(place{
		stack:   s.Stack,
		system:  a.session && s.Interpreter != tachyon.User,
		process: a.session && s.Interpreter == tachyon.Process,
		state:   a.src.State(s.Status, s.Stack),
	})
	a.cells = append(a.cells, cell{s.Interpreter, status, n, a.heads[s.Stack]})
	a.heads[s.Stack] = uint32(len(a.cells))
	return n
}

// place returns the number of a place.
func (a *adder) place(p place) uint32 {
	n := a.places.Of(p)
	if int(n) == len(a.sums) && !a.detailed() {
		a.sums = append(a.sums, sum{sumKey: sumKey{place: n}})
	}
	return n
}

// group returns the number of the group of a sample.
func (a *adder) group(s *stream.Sample) uint64 { return uint64(a.groups.Of(a.d.Group(s))) + 1 }

// detailed reports whether a place may have several sums.
func (a *adder) detailed() bool { return a.slotted() || a.d.Key != nil }

// slotted reports whether the samples of different goroutines at a place may be in different sums
// although they have the same key.
func (a *adder) slotted() bool { return a.d.Goroutines || a.d.Labels || a.d.Group != nil }

// detail returns the number of the sum to which a sample at a place belongs.
func (a *adder) detail(s *stream.Sample, place uint32) uint32 {
	slot, most := int(s.Slot), a.src.Slots()
	if a.passing {
		slot, most = slot%maxPassing, min(most, maxPassing)
	}
	if slot >= len(a.slots) {
		a.slots = append(a.slots, make([]cached, most-len(a.slots))...)
	}
	to := sumKey{place: place}
	if a.d.Key != nil {
		to.key = a.d.Key(s)
	}
	c := &a.slots[slot]
	if !s.First && c.sum != 0 && c.slot == s.Slot && c.place == place && c.key == to.key && c.labels == s.Labels {
		return c.sum - 1
	}
	if a.d.Goroutines && !a.places.List[place].process { // Process has threads only because a core's worth of time has no room in one
		to.goroutine = s.Goroutine
	}
	if a.d.Group != nil {
		to.goroutine = a.group(s)
	}
	if a.d.Labels && s.Labels != nil {
		to.labels = a.set(s.Labels)
	}
	n := a.sum(to)
	*c = cached{slot: s.Slot, place: place, key: to.key, sum: n + 1, labels: s.Labels}
	return n
}

// maxPassing is the number of slots whose sums are cached if records are not kept. Few goroutines
// have samples at the same time, and memory is to depend on the number of goroutines as little as
// possible then.
const maxPassing = 1 << 13

// set returns the number of a set of labels.
func (a *adder) set(l *stream.Labels) uint32 {
	n, ok := a.sets[l.Key]
	if !ok {
		n = uint32(len(a.labels))
		a.sets[l.Key] = n
		a.labels = append(a.labels, labelSet{from: l})
	}
	return n
}

// A labelSet is a set of labels. Its map is made when it is needed.
type labelSet struct {
	from *stream.Labels // nil: no labels
	set  map[string]string
}

// get returns the map. keep says that it will be needed again.
func (l *labelSet) get(keep bool) map[string]string {
	if l.set != nil || l.from == nil {
		return l.set
	}
	set := l.from.Map()
	if keep {
		l.set = set
	}
	return set
}

// sum returns the number of the sum with a key.
func (a *adder) sum(key sumKey) uint32 {
	n, ok := a.index[key]
	if !ok {
		n = uint32(len(a.sums))
		a.index[key] = n
		a.sums = append(a.sums, sum{sumKey: key})
	}
	return n
}

// profile returns the sums as a profile.
func (a *adder) profile() *Profile {
	p := &Profile{Frames: a.src.Frames()}
	a.settle()
	if a.series != nil {
		a.series.finish()
	}
	if len(a.sums) > 0 {
		p.Records = make([]Record, len(a.sums))
	}
	for i := range a.sums {
		p.Records[i] = a.record(&a.sums[i])
		if a.series != nil {
			p.Records[i].Series = a.series.of(i)
		}
		p.Samples += a.sums[i].count
	}
	return p
}

// record returns a sum as a record.
func (a *adder) record(s *sum) Record {
	at := &a.places.List[s.place]
	if n := len(a.src.Stacks()); len(a.stacks) < n {
		a.stacks = append(a.stacks, make([][]uint32, n-len(a.stacks))...)
	}
	if a.stacks[at.stack] == nil && at.stack != 0 {
		a.stacks[at.stack] = a.src.AppendStack(make([]uint32, 0, a.src.Stacks()[at.stack].Depth), at.stack)
	}
	r := Record{
		Goroutine: s.goroutine, Several: !a.d.Goroutines && !at.process && at.state != NotSeen,
		System: at.system, State: at.state, Labels: a.labels[s.labels].get(!a.passing),
		Stack: a.stacks[at.stack], Count: s.count, Wall: s.wall, CPU: s.cpu, Key: s.key,
	}
	if a.passing {
		r.Set = a.labels[s.labels].from
	}
	if a.d.Group != nil {
		r.Goroutine = 0
		if s.goroutine > 0 {
			r.Group = a.groups.List[s.goroutine-1]
		}
	}
	return r
}

// forget drops all sums.
func (a *adder) forget() {
	a.sums = a.sums[:0]
	clear(a.index)
	clear(a.recent)
	clear(a.slots)
	clear(a.labels)
	a.labels = a.labels[:1]
	clear(a.sets)
	a.sets[""] = 0
}
