// Package objects gives numbers to the objects that goroutines wait for: locks, channels and the
// like.
//
// An object gets a number when a second goroutine is seen waiting for it. The number is the line of
// the wait frame. So a channel that only one goroutine waits for, as those that a server makes for
// a request, takes none.
//
// In some servers two goroutines wait for a channel or lock of each request. These must not take
// all numbers, and the file must not grow with them. So only the first maxEager objects in the heap
// get their number at once. A later one needs a place, of which there are fewer a second the more
// numbers there are, and goroutines must still wait for it a second later.
//
// An object is known by its address. The collector does not move objects, but it may free one and
// use its memory for another. Two goroutines are taken to wait for the same object in these cases:
//
//   - It is a variable of the program.
//   - One of them still waits.
//   - There was no collection between.
//   - The object has its number already, and one function is in both stacks, apart from those of
//     the runtime and of package sync.
package objects

import (
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/tachyon"
)

const (
	// maxNumber is the highest number. Objects after it have none.
	maxNumber = 1 << 16

	// maxCandidates is the number of objects that are remembered because they have no number yet.
	// Each has one place, where it may replace another one.
	maxCandidates = 1 << 12

	// maxEager is the number of objects in the heap that get their number at once. Later ones get
	// it after matureAfter if there is a place. At most maxPlaces are free. A place is added each
	// placeEvery, and more rarely when there are more numbers: half as often from slowAfter on.
	maxEager    = 512
	matureAfter = time.Second
	maxPlaces   = 512
	placeEvery  = 50 * time.Millisecond
	slowAfter   = 1024

	// A candidate for which several goroutines have waited keeps its place for keepFor after its
	// last wait.
	keepFor = 250 * time.Millisecond

	// maxCallers is the number of stacks of which an object remembers the functions, MaxFunctions
	// the number of functions of a stack, the innermost ones.
	maxCallers, MaxFunctions = 2, 16

	// MaxObjects is the number of channels of a select that count.
	MaxObjects = 8
)

// An Object is what goroutines wait for.
type Object struct {
	tachyon.Object
	Of []*Object // its members
}

// A Host knows the goroutines. It is no interface: of a type in an interface, programs link the
// description of all its methods.
type Host struct {
	// Static returns the link-time address of an object in a variable of the program, or 0.
	Static func(addr uint64) uint64
	// StillWaits reports whether a goroutine is known to wait for the object at an address.
	StillWaits func(w Waiter, addr uint64) bool
	// Renumber is told that an object that a goroutine waits for has got a number.
	Renumber func(w Waiter)
	// Capacity returns the capacity of a channel, -1 if the goroutine no longer waits for it.
	Capacity func(w Waiter, channel uint64) int64
}

// A List has the objects of a program.
type List struct {
	host    Host
	Numbers int32                 // given so far
	known   map[uint64]*object    // objects with a number, by address; the latest at each
	choices map[choice]*Object    // sets of channels with a number
	named   map[[2]string]*Object // things with a number, by kind and name
	seen    map[uint64]*candidate // by hash of the address, at most maxCandidates
	total   int64                 // of collections, at the last turn
	Cycle   uint64                // differs before and after a collection; 0: there was one since the last turn
	Now     time.Duration         // of the last turn
	places  int                   // for objects that are not eager
	place   time.Duration         // when there is a further one
	matured time.Duration         // when the candidates were last looked through
}

// choice has the numbers of a select's channels, ascending, and 0 after them.
type choice [MaxObjects]int32

// object is what several goroutines have waited for, and has a number.
type object struct {
	Object
	cycle   uint64 // at the last wait
	latest  Waiter
	callers []Callers // of stacks that have waited for it, at most maxCallers
}

// Callers has the numbers of a stack's innermost functions, at most MaxFunctions, apart from those
// of the runtime and of package sync.
type Callers []uint32

func (c Callers) share(d Callers) bool {
	return slices.ContainsFunc(c, func(fn uint32) bool { return slices.Contains(d, fn) })
}

// Functions gives functions numbers.
type Functions map[string]uint32

// Number returns the number of a function, 0 for those of the runtime and of package sync.
func (f Functions) Number(name string) uint32 {
	for _, pkg := range [...]string{"runtime.", "sync.", "internal/sync."} {
		if strings.HasPrefix(name, pkg) {
			return 0
		}
	}
	n, ok := f[name]
	if !ok {
		n = uint32(len(f) + 1)
		f[name] = n
	}
	return n
}

// A Waiter is a goroutine that was seen waiting.
type Waiter struct {
	Index uint64 // the host's
	ID    uint64
	G     uintptr // the address of its g
}

// candidate is an object without a number.
type candidate struct {
	addr  uint64
	kind  string
	cycle uint64 // at the last wait
	Waiter
	callers  Callers       // of the first wait
	other    Callers       // of the last wait of another goroutine
	several  bool          // several goroutines have waited for it
	met, saw time.Duration // times of the first and the last wait
}

// New returns an empty list.
func New(host Host) *List {
	return &List{host: host, known: make(map[uint64]*object), choices: make(map[choice]*Object), named: make(map[[2]string]*Object), seen: make(map[uint64]*candidate)}
}

// Turn is called before the goroutines that were seen at some ticks, the last of which was at a
// time. collections is the number of collections up to now.
func (o *List) Turn(now time.Duration, collections int64) {
	o.Now = now
	for ; o.place <= now; o.place += placeEvery + placeEvery*time.Duration(o.Numbers)/slowAfter {
		o.places = min(o.places+1, maxPlaces)
	}
	o.Cycle = uint64(collections) + 1
	if o.total != collections {
		// What was seen may be from before or after the collection.
		o.total, o.Cycle = collections, 0
	}
	o.mature()
}

// sameCycle reports whether there was no collection since o.Cycle had the given value.
func (o *List) sameCycle(cycle uint64) bool { return cycle == o.Cycle && cycle != 0 }

func (o *List) isStatic(addr uint64) bool { return o.host.Static(addr) != 0 }

// candidate returns the place of an address in the table of candidates.
func (o *List) candidate(addr uint64) *candidate {
	place := addr * 0x9e3779b97f4a7c15 >> 32 % maxCandidates
	if o.seen[place] == nil {
		o.seen[place] = new(candidate)
	}
	return o.seen[place]
}

// take reports whether an object can have a number. One that is not eager takes a place.
func (o *List) take(eager bool) bool {
	if o.Numbers == maxNumber || !eager && o.places == 0 {
		return false
	}
	if !eager {
		o.places--
	}
	return true
}

// add gives an object the next number, after take.
func (o *List) add(x Object) Object {
	o.Numbers++
	x.Number = o.Numbers
	if x.Addr != 0 {
		x.Static = o.host.Static(x.Addr)
	}
	return x
}

// Wait notes that a goroutine waits for the objects at addresses, all of one kind. It returns the
// one whose number the wait has, nil if there is none yet.
func (o *List) Wait(w Waiter, kind string, addrs []uint64, callers Callers) *Object {
	var found [MaxObjects]*object
	n := 0
	for _, addr := range addrs {
		if x := o.see(addr, kind, w, callers); x != nil {
			found[n] = x
			n++
		}
	}
	return o.choice(found[:n])
}

// Numbered returns the object whose number a wait for objects at addresses has now, nil if there is
// none.
func (o *List) Numbered(addrs []uint64) *Object {
	var found [MaxObjects]*object
	n := 0
	for _, addr := range addrs {
		if x := o.known[addr]; x != nil {
			found[n] = x
			n++
		}
	}
	return o.choice(found[:n])
}

// Kind returns the kind of the objects for which a goroutine waits, given that of its wait reason,
// and whether it is in sync.(*RWMutex).Lock.
func Kind(kind string, rwMutex bool) string {
	switch {
	case kind == tachyon.ObjectSelect:
		return tachyon.ObjectChannel
	case kind == tachyon.ObjectMutex && rwMutex:
		return tachyon.ObjectRWMutex // a writer waits for another one
	}
	return kind
}

// Named returns the object that has a kind and a name. The first ones get a number at once, later
// ones need a place. It returns nil if there is none left, or if the kind is "".
func (o *List) Named(kind, name string) *Object {
	key := [2]string{kind, name}
	if x := o.named[key]; x != nil || kind == "" || !o.take(len(o.named) < maxEager) {
		return x
	}
	added := o.add(Object{Object: tachyon.Object{Kind: kind, Name: name}})
	o.named[key] = &added
	return &added
}

// see notes that a goroutine waits for the object at an address. It returns the object if that has
// a number.
func (o *List) see(addr uint64, kind string, w Waiter, callers Callers) *object {
	if x := o.known[addr]; x != nil {
		if o.isSame(x, kind, w, callers) {
			if kind == tachyon.ObjectRWMutex {
				x.Kind = kind // it was known only as the Mutex at its beginning
			}
			x.cycle, x.latest = o.Cycle, w
			return x
		}
		delete(o.known, addr) // the memory has another object now
	}
	c := o.candidate(addr)
	if c.addr != addr || family(c.kind) != family(kind) || !o.still(c) {
		if c.addr != addr && c.several && (o.Now-c.saw < keepFor || o.host.StillWaits(c.Waiter, c.addr)) {
			return nil
		}
		*c = candidate{addr: addr, kind: kind, callers: callers, met: o.Now}
	} else if c.ID != w.ID {
		c.several, c.other = true, callers
		if kind == tachyon.ObjectRWMutex {
			c.kind = kind
		}
	}
	previous := c.Waiter
	c.cycle, c.Waiter, c.saw = o.Cycle, w, o.Now
	if !c.several || !o.isStatic(addr) && !o.room(c) {
		return nil
	}
	x := o.promote(c)
	if x != nil && o.host.StillWaits(previous, addr) {
		o.host.Renumber(previous)
	}
	return x
}

// still reports whether a candidate is the same object as at its last wait, although there may be
// another one at its address by now.
func (o *List) still(c *candidate) bool {
	return o.sameCycle(c.cycle) || o.isStatic(c.addr) || o.host.StillWaits(c.Waiter, c.addr)
}

// room reports whether a candidate in the heap may get a number now.
func (o *List) room(c *candidate) bool {
	return o.Numbers < maxEager || o.places > 0 && o.Now-c.met >= matureAfter
}

// mature gives numbers to candidates for which goroutines have waited since before matureAfter. The
// goroutines that still wait may have no further record of a stack.
func (o *List) mature() {
	if o.Now-o.matured < matureAfter {
		return
	}
	o.matured = o.Now
	for _, c := range o.seen {
		if c.several && o.room(c) && o.host.StillWaits(c.Waiter, c.addr) {
			o.promote(c)
		}
	}
}

// promote gives a candidate a number. It returns nil if there is none left.
func (o *List) promote(c *candidate) *object {
	if !o.take(o.Numbers < maxEager || o.isStatic(c.addr)) {
		return nil
	}
	x := &object{Object: o.add(Object{Object: tachyon.Object{Kind: c.kind, Addr: c.addr}})}
	if c.kind == tachyon.ObjectChannel {
		x.Capacity = o.host.Capacity(c.Waiter, c.addr)
	}
	x.cycle, x.latest, x.callers = c.cycle, c.Waiter, []Callers{c.callers, c.other}
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

// isSame reports whether an object with a number is the one at its address for which a goroutine
// waits.
func (o *List) isSame(x *object, kind string, w Waiter, callers Callers) bool {
	if family(x.Kind) != family(kind) {
		return false
	}
	known := slices.ContainsFunc(x.callers, callers.share)
	if !o.sameCycle(x.cycle) && !o.isStatic(x.Addr) && !o.host.StillWaits(x.latest, x.Addr) {
		if !known {
			return false
		}
		if kind == tachyon.ObjectChannel { // another channel often has another capacity
			n := o.host.Capacity(w, x.Addr)
			return n < 0 || x.Capacity < 0 || n == x.Capacity
		}
	}
	if !known && len(x.callers) < maxCallers {
		x.callers = append(x.callers, callers)
	}
	return true
}

// choice returns the object whose number a wait for a list of objects has. A select on several
// channels that have numbers has the number of the set of them.
func (o *List) choice(list []*object) *Object {
	if len(list) > 1 {
		for i := range list { // package sort allocates, and package slices takes 16 KB of the program for each type
			for j := i; j > 0 && list[j].Number < list[j-1].Number; j-- {
				list[j], list[j-1] = list[j-1], list[j]
			}
		}
		list = slices.Compact(list) // two cases may have the same channel
	}
	switch len(list) {
	case 0:
		return nil
	case 1:
		return &list[0].Object
	}
	var c choice
	for i, x := range list {
		c[i] = x.Number
	}
	x := o.choices[c]
	if x == nil {
		if !o.take(o.Numbers < maxEager) {
			return nil
		}
		set := o.add(Object{Object: tachyon.Object{Kind: tachyon.ObjectSelect}})
		for _, member := range list {
			set.Members = append(set.Members, member.Number)
			set.Of = append(set.Of, &member.Object)
		}
		x = &set
		o.choices[c] = x
	}
	return x
}
