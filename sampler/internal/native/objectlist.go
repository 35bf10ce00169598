//go:build linux && (amd64 || arm64)

package native

import (
	"cmp"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The drain's part of what goroutines wait for. An object gets a number when a second goroutine is
// seen waiting for it, and the number is the line of the wait frame. So a channel that only one
// goroutine waits for, as those that a server makes for a request, takes nothing. There are servers
// with channels or locks for which two goroutines wait during a request. So that they do not take all
// numbers, and the file does not grow with their number, only the first maxEager objects in the heap
// get their number at once. The others get it only if goroutines still wait for them a second later,
// and only some a second do, fewer the more there are already.
//
// An object is known by its address. The collector does not move objects, but it may free one and
// use its memory for another. Two goroutines are taken to wait for the same object in these cases:
//
//   - It is a variable of the program.
//   - One of them still waits.
//   - There was no collection between.
//   - The object has its number already, and one function is in both stacks, apart from those of
//     the runtime and of package sync.
const (
	// maxNumber is the highest number. Objects after it have none.
	maxNumber = 1 << 16

	// maxCandidates is the number of objects that are remembered because they have no number yet.
	// Each has one place in the table, where it may replace another one.
	maxCandidates = 1 << 12

	// maxEager is the number of objects in the heap that get their number at once. Later ones get it
	// after matureAfter if there is a place. At most maxPlaces are free. A place is added each
	// placeEvery, and more rarely when there are more numbers: half as often from slowAfter on.
	maxEager    = 512
	matureAfter = time.Second
	maxPlaces   = 512
	placeEvery  = 50 * time.Millisecond
	slowAfter   = 1024

	// A candidate for which several goroutines have waited keeps its place for keepFor after its
	// last wait.
	keepFor = 250 * time.Millisecond

	// maxCallers is the number of stacks of which an object remembers the functions, maxFunctions the
	// number of functions of a stack, the innermost ones.
	maxCallers, maxFunctions = 2, 16
)

type objectList struct {
	static  []goruntime.Span // the program's variables
	bias    uint64
	numbers int32                     // given so far
	known   map[uint64]*object        // objects with a number, by address; the latest at each
	choices map[choice]*source.Object // sets of channels with a number
	seen    []candidate               // by hash of the address
	stats   debug.GCStats
	total   int64  // of collections, at the last turn
	cycle   uint64 // differs before and after a collection; 0: there was one since the last turn
	now     time.Duration
	places  int           // for objects that are not eager
	place   time.Duration // when there is a further one
	matured time.Duration // when the candidates were last looked through
}

// choice has the numbers of a select's channels, ascending, and 0 after them.
type choice [maxObjects]int32

// object is what several goroutines have waited for.
type object struct {
	source.Object
	cycle   uint64 // at the last wait
	latest  sighting
	callers []callers // of stacks that have waited for it, at most maxCallers
}

// callers has the numbers of a stack's functions, apart from those of the runtime and of package sync.
type callers []uint32

func (c callers) share(d callers) bool {
	return slices.ContainsFunc(c, func(fn uint32) bool { return slices.Contains(d, fn) })
}

// sighting is a goroutine that was seen waiting.
type sighting struct {
	index uint64 // in the roster
	id    uint64
}

// candidate is an object without a number.
type candidate struct {
	addr  uint64
	kind  string
	cycle uint64 // at the last wait
	sighting
	g        uintptr       // of the goroutine that was seen last
	callers  callers       // of the first wait
	other    callers       // of the last wait of another goroutine
	several  bool          // several goroutines have waited for it
	met, saw time.Duration // times of the first and the last wait
}

func newObjectList(img *goruntime.Image) *objectList {
	return &objectList{
		static:  img.Writable,
		bias:    uint64(img.Bias),
		known:   make(map[uint64]*object),
		choices: make(map[choice]*source.Object),
	}
}

// turn is called at the beginning of each pass of the drain. now is the time of the last tick.
func (o *objectList) turn(now time.Duration) {
	o.now = now
	for ; o.place <= now; o.place += placeEvery + placeEvery*time.Duration(o.numbers)/slowAfter {
		o.places = min(o.places+1, maxPlaces)
	}
	debug.ReadGCStats(&o.stats)
	o.cycle = uint64(o.stats.NumGC) + 1
	if o.total != o.stats.NumGC {
		// The records of this pass may be from before or after the collection.
		o.total, o.cycle = o.stats.NumGC, 0
	}
}

// sameCycle reports whether there was no collection since a time at which o.cycle had the given value.
func (o *objectList) sameCycle(cycle uint64) bool { return cycle == o.cycle && cycle != 0 }

// isStatic reports whether an address is in a variable of the program.
func (o *objectList) isStatic(addr uint64) bool {
	return slices.ContainsFunc(o.static, func(s goruntime.Span) bool { return uintptr(addr) >= s.Lo && uintptr(addr) < s.Hi })
}

// candidate returns the place of an address in the table of candidates.
func (o *objectList) candidate(addr uint64) *candidate {
	if o.seen == nil {
		o.seen = make([]candidate, maxCandidates)
	}
	return &o.seen[addr*0x9e3779b97f4a7c15>>32%maxCandidates]
}

// add gives an object the next number. There must be one left.
func (o *objectList) add(x source.Object) source.Object {
	o.numbers++
	x.Number = o.numbers
	if x.Addr != 0 && o.isStatic(x.Addr) {
		x.Static = x.Addr - o.bias
	}
	return x
}

// objectOf notes which object a record's goroutine waits for. s is the stack of the record. objectOf returns the stack with the
// object's number, or s if there is none.
func (d *drain) objectOf(g *goroutine, r record, s *stack) *stack {
	list := r.objects()
	k := d.l.WaitKind(r.reason())
	kind := k.Kind
	switch {
	case kind == tachyon.ObjectSelect:
		kind = tachyon.ObjectChannel
	case kind == tachyon.ObjectMutex && s.rwMutex:
		kind = tachyon.ObjectRWMutex // a writer waits for another one
	}
	w := sighting{r[headIndex], g.id}
	if w.index == ^uint64(0) {
		w.index = uint64(d.roster.index[r[headG]])
	}
	var found [maxObjects]*object
	n := 0
	for _, addr := range list {
		if addr < 4096 {
			continue // the goroutine is being woken
		}
		addr -= k.Offset
		g.addWait(addr)
		if x := d.see(addr, kind, w, s, uintptr(r[headG])); x != nil {
			found[n] = x
			n++
		}
	}
	return d.numbered(s, found[:n])
}

// see notes that a goroutine waits for the object at an address. It returns the object if that has a
// number. gp is the address of the goroutine's g.
func (d *drain) see(addr uint64, kind string, w sighting, s *stack, gp uintptr) *object {
	o := d.objects
	if x := o.known[addr]; x != nil {
		if d.isSame(x, kind, s, gp) {
			if kind == tachyon.ObjectRWMutex {
				x.Kind = kind // it was known only as the Mutex at its beginning
			}
			x.cycle, x.latest = o.cycle, w
			return x
		}
		delete(o.known, addr) // the memory has another object now
	}
	c := o.candidate(addr)
	if c.addr != addr || family(c.kind) != family(kind) || !d.still(c) {
		if c.addr != addr && c.several && (o.now-c.saw < keepFor || d.stillWaits(c.sighting, c.addr)) {
			return nil
		}
		*c = candidate{addr: addr, kind: kind, callers: s.callers, met: o.now}
	} else if c.id != w.id {
		c.several, c.other = true, s.callers
		if kind == tachyon.ObjectRWMutex {
			c.kind = kind
		}
	}
	previous := c.sighting
	c.cycle, c.sighting, c.g, c.saw = o.cycle, w, gp, o.now
	if !c.several || !o.isStatic(addr) && !o.room(c) {
		return nil
	}
	x := d.promote(c)
	if x != nil && d.stillWaits(previous, addr) {
		d.renumber(&d.gs[previous.index])
	}
	return x
}

// still reports whether a candidate is the same object as at its last wait, although there may be
// another one at its address by now.
func (d *drain) still(c *candidate) bool {
	return d.objects.sameCycle(c.cycle) || d.objects.isStatic(c.addr) || d.stillWaits(c.sighting, c.addr)
}

// room reports whether a candidate in the heap may get a number now.
func (o *objectList) room(c *candidate) bool {
	return o.numbers < maxEager || o.places > 0 && o.now-c.met >= matureAfter
}

// mature gives numbers to candidates for which goroutines have waited since before matureAfter. The
// goroutines that still wait may have no further record of a stack.
func (d *drain) mature() {
	o := d.objects
	if o.now-o.matured < matureAfter {
		return
	}
	o.matured = o.now
	for i := range o.seen {
		c := &o.seen[i]
		if c.several && o.room(c) && d.stillWaits(c.sighting, c.addr) {
			d.promote(c)
		}
	}
}

// promote gives a candidate a number. It returns nil if there is none left.
func (d *drain) promote(c *candidate) *object {
	o := d.objects
	if o.numbers == maxNumber {
		return nil
	}
	if o.numbers >= maxEager && !o.isStatic(c.addr) {
		o.places--
	}
	x := &object{Object: o.add(source.Object{Object: tachyon.Object{Kind: c.kind, Addr: c.addr}})}
	if c.kind == tachyon.ObjectChannel {
		x.Capacity = capacity(d.l, c.g, c.addr)
	}
	x.cycle, x.latest, x.callers = c.cycle, c.sighting, []callers{c.callers, c.other}
	o.known[c.addr] = x
	*c = candidate{}
	return x
}

// family is the same for kinds that one object can have: a RWMutex begins with a Mutex.
func family(kind string) string {
	if kind == tachyon.ObjectRWMutex {
		return tachyon.ObjectMutex
	}
	return kind
}

// isSame reports whether an object with a number is the one at its address for which a goroutine with
// stack s waits. gp is the address of the goroutine's g.
func (d *drain) isSame(x *object, kind string, s *stack, gp uintptr) bool {
	o := d.objects
	if family(x.Kind) != family(kind) {
		return false
	}
	known := slices.ContainsFunc(x.callers, s.callers.share)
	if !o.sameCycle(x.cycle) && !o.isStatic(x.Addr) && !d.stillWaits(x.latest, x.Addr) {
		if !known {
			return false
		}
		if kind == tachyon.ObjectChannel { // another channel often has another capacity
			n := capacity(d.l, gp, x.Addr)
			return n < 0 || x.Capacity < 0 || n == x.Capacity
		}
	}
	if !known && len(x.callers) < maxCallers {
		x.callers = append(x.callers, s.callers)
	}
	return true
}

// stillWaits reports whether a goroutine waits for the object at an address, as far as is known.
func (d *drain) stillWaits(w sighting, addr uint64) bool {
	if w.index >= uint64(len(d.gs)) {
		return false
	}
	g := &d.gs[w.index]
	return g.id == w.id && !g.ran && g.parked != nil && (g.wait == addr || slices.Contains(g.waits, addr))
}

// addWait notes an object for which a goroutine waits.
func (g *goroutine) addWait(addr uint64) {
	if g.wait == 0 {
		g.wait = addr
	} else {
		g.waits = append(g.waits, addr)
	}
}

// renumber gives a waiting goroutine's stack the numbers that its objects have now.
func (d *drain) renumber(g *goroutine) {
	var found [maxObjects]*object
	n := 0
	if x := d.objects.known[g.wait]; x != nil {
		found[n] = x
		n++
	}
	for _, addr := range g.waits {
		if x := d.objects.known[addr]; x != nil {
			found[n] = x
			n++
		}
	}
	s := g.parked
	if s.plain != nil {
		s = s.plain
	}
	g.parked = d.numbered(s, found[:n])
}

// numbered returns the stack s with the number of the object that its goroutine waits for. A select
// on several channels that have numbers has the number of the set of them.
func (d *drain) numbered(s *stack, list []*object) *stack {
	if len(list) > 1 {
		slices.SortFunc(list, func(a, b *object) int { return cmp.Compare(a.Number, b.Number) })
		list = slices.Compact(list) // two cases may have the same channel
	}
	switch len(list) {
	case 0:
		return s
	case 1:
		return d.stacks.numbered(s, &list[0].Object)
	}
	o := d.objects
	var c choice
	for i, x := range list {
		c[i] = x.Number
	}
	x := o.choices[c]
	if x == nil {
		if o.numbers == maxNumber || o.numbers >= maxEager && o.places == 0 {
			return s
		}
		if o.numbers >= maxEager {
			o.places--
		}
		set := o.add(source.Object{Object: tachyon.Object{Kind: tachyon.ObjectSelect}})
		for _, member := range list {
			set.Members = append(set.Members, member.Number)
			set.Of = append(set.Of, &member.Object)
		}
		x = &set
		o.choices[c] = x
	}
	return d.stacks.numbered(s, x)
}

// capacity returns the capacity of a channel for which a goroutine waits, -1 if it no longer waits.
func capacity(l *goruntime.Layout, g uintptr, channel uint64) int64 {
	first := mem.ReadWord(g + l.GWaiting)
	sudog := uintptr(first)
	for range maxObjects {
		if sudog == 0 {
			break
		}
		if mem.ReadWord(sudog+l.SudogC) == channel {
			n := mem.ReadWord(uintptr(channel) + l.HchanSize)
			if mem.ReadWord(g+l.GWaiting) == first && mem.ReadWord(sudog+l.SudogC) == channel && n < 1<<48 {
				return int64(n)
			}
			break
		}
		sudog = uintptr(mem.ReadWord(sudog + l.SudogWaitLink))
	}
	return -1
}
