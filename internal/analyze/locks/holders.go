package locks

import (
	"cmp"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/analyze"
)

// A charge is time in which goroutines waited for an object.
type charge struct {
	object    int32
	from, to  uint64 // µs
	waiters   int    // that are selected
	time      uint64 // of all of them together, µs; of a channel the part that is this goroutine's
	how       how
	goroutine uint64 // the holder
	stack     uint32 // of the holder
	state     string
	short     bool // the hold is shorter than two ticks
}

// A sweep goes through a window in order of time.
type sweep struct {
	*sectionFinder
	w       *window
	until   uint64 // the window's end; MaxUint64 if nothing comes after it
	tick    uint64
	waiting map[int32]*contended   // objects that goroutines wait for now
	byKey   map[int32][]*contended // by key
	inside  map[int32][]int32      // sections by key
	now     []int32                // by goroutine: its stretch, plus 1
	bound   map[int32][]int32      // by object: its sections in order of time
	charge  func(*charge)          // may be nil
	later   uint64                 // when channels are looked at again, µs
	watch   watcher                // may be nil
}

// A watcher sees what happens in order of time.
type watcher interface {
	begin(s *sweep)                             // before all else
	step(x *stretch, begins bool)               // a stretch begins or ends
	pass(s *sweep, to uint64, changes []moment) // until a time all stayed the same; then these stretches begin or end
}

// A contended object is one that goroutines wait for.
type contended struct {
	object  int32
	keys    *objectKeys
	waiters map[int32]int // goroutines, with the number of their stretches
	count   int           // stretches that are selected
	last    uint64        // µs; until then its time is charged

	// Of a channel.
	since   uint64 // µs; until then its time is charged, and until last it is in pending
	pending uint64 // µs
	turn    int
	side    *channelSide
}

// middle returns a time before which about half of the stretches begin, MaxUint64 if there is none.
func (w *window) middle() uint64 {
	list := make([]uint64, 0, w.stretches.Len)
	for x := range w.stretches.All() {
		list = append(list, x.begin)
	}
	slices.Sort(list)
	at := list[len(list)/2]
	if n, _ := slices.BinarySearch(list, at); n < len(list)/4 {
		return math.MaxUint64
	}
	return at
}

// sweep charges the waits of the present window that begin before a time, and begins another window
// with the rest. Samples of other goroutines come up to some thousand samples later, so the rest is
// not swept before they have come. MaxUint64 is the end of a file.
func (f *sectionFinder) sweep(until uint64, charge func(*charge)) {
	w := f.window
	f.window = window{}
	f.epoch++
	f.carried = nil
	if until < math.MaxUint64 {
		w.stretches = f.carry(w, until)
	}
	s := &sweep{
		sectionFinder: f, w: &w, until: until, tick: f.tick(), waiting: map[int32]*contended{}, byKey: map[int32][]*contended{},
		inside: map[int32][]int32{}, now: make([]int32, len(w.goroutines)), bound: map[int32][]int32{}, charge: charge, watch: f.watch,
	}
	ends := s.waitEnds()
	s.bind()
	s.handOver(ends)
	s.bind()
	s.countHandovers(ends)
	if f.watch != nil {
		f.watch.begin(s)
	}
	s.run()
	for old, now := range f.carried {
		if now > 0 { // what has become known of its object
			f.window.sections[now-1].object, f.window.sections[now-1].how = w.sections[old].object, w.sections[old].how
		}
	}
}

// carry begins a window with the stretches of another one from a time on. It returns the others.
func (f *sectionFinder) carry(w window, from uint64) (before analyze.PartList[stretch]) {
	f.carried = make(carriedSections, len(w.sections))
	f.window.goroutines = w.goroutines
	carry := func(n int32) int32 {
		if f.carried[n] == 0 {
			f.window.sections = append(f.window.sections, w.sections[n])
			f.carried[n] = int32(len(f.window.sections))
		}
		return f.carried[n] - 1
	}
	for x := range w.stretches.All() {
		if x.begin < from {
			before.Add(*x)
			continue
		}
		sections := make([]int32, len(x.sections))
		for i, n := range x.sections {
			sections[i] = carry(n)
		}
		x.sections = sections
		f.window.stretches.Add(*x)
	}
	for n := range w.sections {
		if w.sections[n].end >= from { // it may go on
			carry(int32(n))
		}
	}
	return before
}

// A moment is a beginning or an end of a stretch.
type moment struct {
	at      uint64 // µs
	stretch int32  // -n-1: the end of n
}

// number returns the number of the stretch.
func (m moment) number() int32 { return max(m.stretch, -m.stretch-1) }

// run goes through all stretches.
func (s *sweep) run() {
	list := make([]moment, 0, 2*s.w.stretches.Len)
	for i := range s.w.stretches.Len {
		x := s.w.stretches.At(i)
		list = append(list, moment{x.begin, i}, moment{x.end, -i - 1})
	}
	slices.SortFunc(list, func(a, b moment) int {
		if a.at != b.at { // nearly always
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.stretch, b.stretch)
	})
	next := 0 // the first moment that is later
	for i, m := range list {
		if s.watch != nil && i == next {
			for next++; next < len(list) && list[next].at == m.at; next++ {
			}
			s.watch.pass(s, m.at, list[i:next])
		}
		if m.at >= s.later && s.channelWaits && s.charge != nil {
			s.settleChannels(m.at)
		}
		if m.stretch < 0 {
			s.step(m.at, -m.stretch-1, false)
		} else {
			s.step(m.at, m.stretch, true)
		}
	}
}

// step begins or ends a stretch.
func (s *sweep) step(at uint64, number int32, begins bool) {
	x := s.w.stretches.At(number)
	for _, n := range x.sections {
		sec := &s.w.sections[n]
		if sec.key < 0 {
			if c := s.waiting[sec.object]; c != nil {
				s.settle(c, at)
			}
			continue
		}
		for _, c := range s.byKey[sec.key] {
			s.settle(c, at)
		}
	}
	if x.waits != 0 {
		s.wait(x, at, begins)
	}
	for _, n := range x.sections {
		key := s.w.sections[n].key
		if key < 0 {
			key = givenKey(s.w.sections[n].object)
		}
		if begins {
			s.inside[key] = append(s.inside[key], n)
		} else if i := slices.Index(s.inside[key], n); i >= 0 {
			s.inside[key] = slices.Delete(s.inside[key], i, i+1)
		}
	}
	if s.watch != nil {
		s.watch.step(x, begins)
	}
	s.now[x.goroutine] = 0
	if begins {
		s.now[x.goroutine] = number + 1
	}
}

// givenKey is the key of sections of goroutines that were given an object. Keys of objects without
// number are even numbers, those of the others odd ones.
func givenKey(object int32) int32 {
	if object < 0 {
		return 2 * object
	}
	return -2*object - 1
}

// wait begins or ends a wait for an object.
func (s *sweep) wait(x *stretch, at uint64, begins bool) {
	object, goroutine := x.waits, x.goroutine
	c := s.waiting[object]
	if c == nil {
		if !begins {
			return
		}
		c = &contended{object: object, keys: s.objects[object], waiters: map[int32]int{}, last: at, since: at}
		s.waiting[object] = c
		if c.keys.sides == nil {
			for key := range c.keys.all {
				s.byKey[key] = append(s.byKey[key], c)
			}
		}
	}
	s.settle(c, at)
	if begins && c.keys.sides != nil {
		c.side = c.keys.sides.of[s.site(x.stack).reason]
	}
	if !x.unselected {
		if begins {
			c.count++
		} else {
			c.count--
		}
	}
	if begins {
		c.waiters[goroutine]++
		return
	}
	if c.waiters[goroutine]--; c.waiters[goroutine] > 0 {
		return
	}
	delete(c.waiters, goroutine)
	if len(c.waiters) > 0 {
		return
	}
	s.settleChannel(c, at)
	delete(s.waiting, object)
	if c.keys.sides != nil {
		return
	}
	for key := range c.keys.all {
		s.byKey[key] = slices.DeleteFunc(s.byKey[key], func(x *contended) bool { return x == c })
	}
}

// settle charges the time since the last change to the holder.
func (s *sweep) settle(c *contended, at uint64) {
	if at <= c.last || s.charge == nil {
		return
	}
	x := charge{object: c.object, from: c.last, to: at, waiters: min(c.count, len(c.waiters))}
	if c.last = at; x.waiters == 0 {
		return
	}
	x.time = (x.to - x.from) * uint64(x.waiters)
	if c.keys.sides != nil {
		c.pending += x.time
		return
	}
	if n, how := s.holder(c); n >= 0 {
		sec := &s.w.sections[n]
		x.how, x.short = how, (sec.end-sec.begin)/uint64(sec.handovers+1) < 2*s.tick
		s.sayWho(&x, sec)
	}
	s.charge(&x)
}

// sayWho sets the goroutine of a charge, which is that of a section, and what it does now.
func (s *sweep) sayWho(x *charge, sec *section) {
	x.goroutine = s.w.goroutines[sec.goroutine]
	if now := s.now[sec.goroutine]; now > 0 {
		stretch := s.w.stretches.At(now - 1)
		x.stack, x.state = stretch.stack, s.Source.State(stretch.status, stretch.stack)
	}
}

// holder returns the section of the goroutine that holds an object now, or -1.
func (s *sweep) holder(c *contended) (int32, how) {
	best := int32(-1)
	consider := func(n int32) {
		if best < 0 {
			best = n
			return
		}
		a, b := &s.w.sections[n], &s.w.sections[best]
		order := cmp.Compare(a.how, b.how)
		if !a.read || !b.read {
			order = cmp.Or(order, cmp.Compare(a.begin, b.begin)) // the last one that got it
		}
		// Of several readers, the one whose section is the longest keeps the others waiting.
		if cmp.Or(order, cmp.Compare(a.end, b.end)) > 0 {
			best = n
		}
	}
	for key := range c.keys.all {
		for _, n := range s.inside[key] {
			if s.w.sections[n].object == c.object && c.waiters[s.w.sections[n].goroutine] == 0 {
				consider(n)
			}
		}
	}
	if best >= 0 {
		return best, s.w.sections[best].how
	}
	for _, list := range [][]int32{c.keys.exact, c.keys.weak} {
		several := false
		for _, key := range list {
			for _, n := range s.inside[key] {
				sec := &s.w.sections[n]
				if sec.object != 0 || c.waiters[sec.goroutine] > 0 || s.excluded(c.object, sec) {
					continue
				}
				several = several || best >= 0 && !(sec.read && s.w.sections[best].read) && s.w.sections[best].goroutine != sec.goroutine
				consider(n)
			}
		}
		if several {
			return -1, unknown
		}
		if best >= 0 {
			return best, inferred
		}
	}
	for _, n := range s.inside[givenKey(c.object)] {
		consider(n)
	}
	return best, inferred
}

// excluded reports whether a section is not of an object because others held it meanwhile.
func (s *sweep) excluded(object int32, sec *section) bool {
	list := s.bound[object]
	slack := s.tick + s.tick/2
	most := max(slack, (sec.end-sec.begin)/10)
	i, _ := slices.BinarySearchFunc(list, sec.begin, func(n int32, at uint64) int { return cmp.Compare(s.w.sections[n].begin, at) })
	sum := uint64(0)
	for count := 0; count < 64; count++ {
		at := max(0, i-1) + count
		if at >= len(list) {
			return false
		}
		b := &s.w.sections[list[at]]
		if b.begin >= sec.end {
			return false
		}
		if b.read && sec.read {
			continue
		}
		if from, to := max(b.begin, sec.begin), min(b.end, sec.end); to > from {
			sum += to - from
			if to-from > slack || sum > most {
				return true
			}
		}
	}
	return true
}

// bind lists the sections of objects.
func (s *sweep) bind() {
	clear(s.bound)
	for i := range s.w.sections {
		if sec := &s.w.sections[i]; sec.object != 0 && sec.key >= 0 {
			s.bound[sec.object] = append(s.bound[sec.object], int32(i))
		}
	}
	for _, list := range s.bound {
		slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(s.w.sections[a].begin, s.w.sections[b].begin) })
	}
}
