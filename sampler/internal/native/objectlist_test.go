//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// sightings is a drain that sees what a test says.
type sightings struct {
	*drain
	stacks map[string]*stack
	g      uintptr // what looks like the g of each goroutine
}

func newSightings() *sightings {
	l := goruntime.Layouts["go1.27"]
	d := &drain{l: l, gs: make([]goroutine, 1000), objects: newObjectList(&goruntime.Image{Writable: []goruntime.Span{{Lo: 0x1000, Hi: 0x2000}}, Bias: 0x800})}
	d.stacks = newStacks(newRecorder(), l, nil, true)
	d.objects.cycle = 1
	return &sightings{d, map[string]*stack{}, 0}
}

// waits lets goroutine i wait for the object at an address, with a stack of one function. It returns
// the number that the goroutine's stack has then.
func (s *sightings) waits(i uint64, addr uint64, kind, function string) int32 {
	st := s.stacks[function]
	if st == nil {
		st = &stack{ids: []uint32{0, 1}, valid: true, callers: callers{s.drain.stacks.function(function)}, key: uint64(len(s.stacks)), reason: kind}
		s.stacks[function] = st
	}
	g := &s.gs[i]
	g.id, g.wait, g.waits = i+1, 0, g.waits[:0]
	g.addWait(addr)
	var list []*object
	if x := s.see(addr, kind, sighting{i, g.id}, st, s.g); x != nil {
		list = append(list, x)
	}
	g.parked = s.numbered(st, list)
	return s.number(i)
}

// number returns the number in a goroutine's stack.
func (s *sightings) number(i uint64) int32 {
	if x := s.gs[i].parked.object; x != nil {
		return x.Number
	}
	return 0
}

func (s *sightings) wakes(i uint64) { s.gs[i].wait, s.gs[i].waits = 0, s.gs[i].waits[:0] }

func numberCheck(t *testing.T) func(what string, got, want int32) {
	return func(what string, got, want int32) {
		t.Helper()
		if got != want {
			t.Errorf("%s: number %d, want %d", what, got, want)
		}
	}
}

const heap = 0xc000_1000

// TestNumbers gives numbers to objects and checks that an address that is used again is another object.
func TestNumbers(t *testing.T) {
	const mutex, channel = tachyon.ObjectMutex, tachyon.ObjectChannel
	s, check := newSightings(), numberCheck(t)
	check("the first goroutine", s.waits(0, heap, mutex, "a"), 0)
	check("the first goroutine again", s.waits(0, heap, mutex, "a"), 0)
	check("the second goroutine", s.waits(1, heap, mutex, "b"), 1)
	check("the first one then", s.number(0), 1)
	s.wakes(0)
	s.wakes(1)
	check("a third one", s.waits(2, heap, mutex, "c"), 1)
	s.wakes(2)

	// After a collection.
	s.objects.cycle = 2
	check("a known function", s.waits(3, heap, mutex, "a"), 1)
	s.objects.cycle = 3
	check("another function while one waits", s.waits(4, heap, mutex, "d"), 1)
	s.wakes(3)
	s.wakes(4)
	s.objects.cycle = 4
	check("another function", s.waits(5, heap, mutex, "e"), 0)
	check("a second one with it", s.waits(6, heap, mutex, "e"), 2)
	check("a RWMutex, which begins with a Mutex", s.waits(7, heap, tachyon.ObjectRWMutex, "e"), 2)
	if k := s.gs[6].parked.object.Kind; k != tachyon.ObjectRWMutex {
		t.Errorf("its kind is %s", k)
	}
	check("another kind", s.waits(8, heap, channel, "e"), 0)
	check("another kind, the second goroutine", s.waits(9, heap, channel, "e"), 3)

	// Two goroutines that wait one after the other, with a collection between.
	check("one", s.waits(10, heap+64, channel, "x"), 0)
	s.wakes(10)
	s.objects.cycle = 5
	check("the next", s.waits(11, heap+64, channel, "x"), 0)
	s.objects.cycle = 6
	check("the next that meets it", s.waits(12, heap+64, channel, "y"), 4)

	// In a pass in which a collection ended nothing is known about the order.
	s.objects.cycle = 0
	check("one", s.waits(20, heap+128, channel, "x"), 0)
	s.wakes(20)
	check("the next", s.waits(21, heap+128, channel, "x"), 0)

	// A variable stays the same object.
	check("a variable", s.waits(30, 0x1010, mutex, "x"), 0)
	s.wakes(30)
	s.objects.cycle = 7
	check("a variable, the second goroutine", s.waits(31, 0x1010, mutex, "y"), 5)
	if x := s.gs[31].parked.object; x.Static != 0x810 {
		t.Errorf("its link-time address is %#x", x.Static)
	}
}

// TestTurnAfterCollection has a collection between turns. In the turn that finds it nothing is known about the order.
func TestTurnAfterCollection(t *testing.T) {
	o := newSightings().objects
	next := func() uint64 { o.turn(o.now + time.Second); return o.cycle }
	testenv.Await(func() bool { next(); return next() != 0 }) // no collection by another cause between two turns
	before := o.cycle
	runtime.GC()
	if next() != 0 || o.sameCycle(before) {
		t.Error("the turn after a collection counts as one before it")
	}
	testenv.Await(func() bool { return next() != 0 })
	if o.sameCycle(before) || !o.sameCycle(o.cycle) {
		t.Errorf("cycle %d before the collection, %d after it", before, o.cycle)
	}
}

// reused stays at its address. A local variable could be on the stack, which moves.
var reused [512]uint64

// TestChannelReused uses the memory of a channel for another channel after a collection. That the same
// function waits for it says nothing, but another capacity does.
func TestChannelReused(t *testing.T) {
	s, check := newSightings(), numberCheck(t)
	word := func(base uint64, offset uintptr) *uint64 { return &reused[base+uint64(offset)/8] }
	at := func(p *uint64) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
	const g, sudog, channel = 0, 128, 256
	s.g = uintptr(unsafe.Pointer(word(g, 0)))
	c := at(word(channel, 0))
	*word(g, s.l.GWaiting) = at(word(sudog, 0))
	*word(sudog, s.l.SudogC) = c
	*word(channel, s.l.HchanSize) = 3
	waits := func(i uint64) int32 { return s.waits(i, c, tachyon.ObjectChannel, "a") }
	check("the first goroutine", waits(0), 0)
	check("the second one", waits(1), 1)
	check("its capacity", int32(s.objects.known[c].Capacity), 3)
	s.wakes(0)
	s.wakes(1)
	s.objects.cycle = 2
	check("the same channel after a collection", waits(3), 1)
	s.wakes(3)
	s.objects.cycle = 3
	*word(channel, s.l.HchanSize) = 4
	check("the other channel", waits(4), 0)
	check("the other channel, the second goroutine", waits(5), 2)
}

// TestNumbersBounded lets goroutines wait for a million objects.
func TestNumbersBounded(t *testing.T) {
	s := newSightings()
	for i := range uint64(200_000) {
		if n := s.waits(0, heap+i*64, tachyon.ObjectChannel, "a"); n != 0 {
			t.Fatalf("an object of one goroutine has number %d", n)
		}
	}
	if len(s.objects.known) != 0 || len(s.objects.seen) != maxCandidates {
		t.Errorf("%d objects and %d candidates are kept", len(s.objects.known), len(s.objects.seen))
	}
	// A channel for each of 5,000 requests a second, for which two goroutines wait. One lock is there
	// all the time, and two goroutines wait for it in turns. Two other ones wait for a third lock, and
	// never wake.
	const requests, lock, idle = 200_000, heap + 32, heap + 40
	var last, lasting, resting int32
	for i := range uint64(requests) {
		now := time.Duration(i) * time.Second / 5000
		if i%100 == 0 {
			s.objects.turn(now)
			s.objects.cycle = 1
			s.mature()
			s.drain.stacks.forget(func(func(*stack)) {})
		}
		s.waits(0, heap+i*64, tachyon.ObjectChannel, "a")
		last = max(last, s.waits(1, heap+i*64, tachyon.ObjectChannel, "a"))
		if i == 2000 {
			s.waits(4, idle, tachyon.ObjectMutex, "a")
			s.waits(5, idle, tachyon.ObjectMutex, "a")
		}
		if i > 1000 && i%50 == 0 {
			lasting = s.waits(2+i/50%2, lock, tachyon.ObjectMutex, "a")
			s.wakes(2 + i/50%2)
		}
	}
	if last < maxEager || last > maxEager+10 || len(s.objects.known) > maxEager+10 || len(s.objects.seen) != maxCandidates {
		t.Errorf("the highest number is %d, and %d objects are kept", last, len(s.objects.known))
	}
	if x := s.objects.known[idle]; x != nil {
		resting = x.Number
	}
	if lasting <= maxEager || resting <= maxEager || lasting == resting {
		t.Errorf("the locks have the numbers %d and %d", lasting, resting)
	}
	// Variables get numbers even then.
	s.waits(6, 0x1100, tachyon.ObjectMutex, "a")
	if n := s.waits(7, 0x1100, tachyon.ObjectMutex, "a"); n <= maxEager {
		t.Errorf("a variable has number %d", n)
	}

	// A thousand channels at a time for ten minutes, each for three seconds.
	for i := range uint64(600_000) {
		if i%20 == 0 {
			s.objects.turn(s.objects.now + 20*time.Millisecond)
			s.objects.cycle = 1
			s.drain.stacks.forget(func(func(*stack)) {})
		}
		g := 100 + i/1000%2
		last = max(last, s.waits(g, heap+1<<32+(i/3000*1000+i%1000)*64, tachyon.ObjectChannel, "a"))
		s.wakes(g)
	}
	if most := int32(5000); last < 1000 || last > most || len(s.objects.known) > int(most) {
		t.Errorf("after %v the highest number is %d, and %d objects are kept", s.objects.now, last, len(s.objects.known))
	}
}
