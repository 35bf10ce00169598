package objects

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// sightings is a host whose goroutines wait as a test says.
type sightings struct {
	*List
	gs        []sighted
	functions Functions
	capacity  int64 // of all channels
}

type sighted struct {
	addrs  []uint64
	object *Object
}

func newSightings() *sightings {
	s := &sightings{gs: make([]sighted, 1000), functions: Functions{}, capacity: -1}
	s.List = New(Host{s.static, s.stillWaits, s.renumber, func(Waiter, uint64) int64 { return s.capacity }})
	s.Cycle = 1
	return s
}

func (s *sightings) static(addr uint64) uint64 {
	if addr >= 0x1000 && addr < 0x2000 {
		return addr - 0x800
	}
	return 0
}

func (s *sightings) stillWaits(w Waiter, addr uint64) bool {
	return w.ID == w.Index+1 && slices.Contains(s.gs[w.Index].addrs, addr)
}

func (s *sightings) renumber(w Waiter) { s.gs[w.Index].object = s.Numbered(s.gs[w.Index].addrs) }

// waits lets goroutine i wait for the object at an address, with a stack of one function. It returns
// the number that the goroutine's stack has then.
func (s *sightings) waits(i uint64, addr uint64, kind, function string) int32 {
	g := &s.gs[i]
	g.addrs = append(g.addrs[:0], addr)
	g.object = s.Wait(Waiter{Index: i, ID: i + 1}, kind, g.addrs, Callers{s.functions.Number(function)})
	return s.number(i)
}

// number returns the number in a goroutine's stack.
func (s *sightings) number(i uint64) int32 {
	if x := s.gs[i].object; x != nil {
		return x.Number
	}
	return 0
}

func (s *sightings) wakes(i uint64) { s.gs[i].addrs = s.gs[i].addrs[:0] }

const heap = 0xc000_1000

// TestNumbers gives numbers to objects and checks that an address that is used again is another object.
func TestNumbers(t *testing.T) {
	const mutex, channel = tachyon.ObjectMutex, tachyon.ObjectChannel
	s := newSightings()
	testenv.Same(t, "the first goroutine", s.waits(0, heap, mutex, "a"), 0)
	testenv.Same(t, "the first goroutine again", s.waits(0, heap, mutex, "a"), 0)
	testenv.Same(t, "the second goroutine", s.waits(1, heap, mutex, "b"), 1)
	testenv.Same(t, "the first one then", s.number(0), 1)
	s.wakes(0)
	s.wakes(1)
	testenv.Same(t, "a third one", s.waits(2, heap, mutex, "c"), 1)
	s.wakes(2)

	// After a collection.
	s.Cycle = 2
	testenv.Same(t, "a known function", s.waits(3, heap, mutex, "a"), 1)
	s.Cycle = 3
	testenv.Same(t, "another function while one waits", s.waits(4, heap, mutex, "d"), 1)
	s.wakes(3)
	s.wakes(4)
	s.Cycle = 4
	testenv.Same(t, "another function", s.waits(5, heap, mutex, "e"), 0)
	testenv.Same(t, "a second one with it", s.waits(6, heap, mutex, "e"), 2)
	testenv.Same(t, "a RWMutex, which begins with a Mutex", s.waits(7, heap, tachyon.ObjectRWMutex, "e"), 2)
	testenv.Same(t, "its kind", s.gs[6].object.Kind, tachyon.ObjectRWMutex)
	testenv.Same(t, "another kind", s.waits(8, heap, channel, "e"), 0)
	testenv.Same(t, "another kind, the second goroutine", s.waits(9, heap, channel, "e"), 3)

	// Two goroutines that wait one after the other, with a collection between.
	testenv.Same(t, "one", s.waits(10, heap+64, channel, "x"), 0)
	s.wakes(10)
	s.Cycle = 5
	testenv.Same(t, "the next", s.waits(11, heap+64, channel, "x"), 0)
	s.Cycle = 6
	testenv.Same(t, "the next that meets it", s.waits(12, heap+64, channel, "y"), 4)

	// In a pass in which a collection ended nothing is known about the order.
	s.Cycle = 0
	testenv.Same(t, "one", s.waits(20, heap+128, channel, "x"), 0)
	s.wakes(20)
	testenv.Same(t, "the next", s.waits(21, heap+128, channel, "x"), 0)

	// A variable stays the same object.
	testenv.Same(t, "a variable", s.waits(30, 0x1010, mutex, "x"), 0)
	s.wakes(30)
	s.Cycle = 7
	testenv.Same(t, "a variable, the second goroutine", s.waits(31, 0x1010, mutex, "y"), 5)
	testenv.Same(t, "its link-time address", s.gs[31].object.Static, 0x810)

	// That the same function waits says nothing after a collection, but another capacity does.
	s.capacity = 3
	testenv.Same(t, "a channel", s.waits(40, heap+192, channel, "x"), 0)
	testenv.Same(t, "a channel, the second goroutine", s.waits(41, heap+192, channel, "x"), 6)
	s.wakes(40)
	s.wakes(41)
	s.Cycle = 8
	testenv.Same(t, "the same channel after a collection", s.waits(42, heap+192, channel, "x"), 6)
	s.wakes(42)
	s.Cycle, s.capacity = 9, 4
	testenv.Same(t, "another channel there", s.waits(43, heap+192, channel, "x"), 0)
}

// TestNumbersBounded lets goroutines wait for a million objects.
func TestNumbersBounded(t *testing.T) {
	s := newSightings()
	s.waits(0, heap, tachyon.ObjectChannel, "a")
	testenv.Same(t, "candidates at first", len(s.seen), 1)
	for i := range uint64(200_000) {
		testenv.Same(t, "number of an object of one goroutine", s.waits(0, heap+i*64, tachyon.ObjectChannel, "a"), 0)
	}
	testenv.Prints(t, "objects and candidates", fmt.Sprint(0, maxCandidates), len(s.known), len(s.seen))
	// A channel for each of 5,000 requests a second, for which two goroutines wait. One lock is there
	// all the time, and two goroutines wait for it in turns. Two other ones wait for a third lock, and
	// never wake.
	const requests, lock, idle = 200_000, heap + 32, heap + 40
	var last, lasting int32
	for i := range uint64(requests) {
		now := time.Duration(i) * time.Second / 5000
		if i%100 == 0 {
			s.Turn(now, 0)
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
	testenv.Within(t, "the highest number", last, maxEager, maxEager+10)
	testenv.Within(t, "objects", len(s.known), 1, maxEager+10)
	testenv.Same(t, "candidates", len(s.seen), maxCandidates)
	// The locks and variables get numbers even then.
	s.waits(6, 0x1100, tachyon.ObjectMutex, "a")
	variable := s.waits(7, 0x1100, tachyon.ObjectMutex, "a")
	numbers := map[int32]bool{lasting: true, s.known[idle].Number: true, variable: true}
	testenv.Same(t, "different numbers", len(numbers), 3)
	for n := range numbers {
		testenv.Within(t, "number", n, maxEager+1, math.MaxInt32)
	}

	// A thousand channels at a time for ten minutes, each for three seconds.
	for i := range uint64(600_000) {
		if i%20 == 0 {
			s.Turn(s.Now+20*time.Millisecond, 0)
		}
		g := 100 + i/1000%2
		last = max(last, s.waits(g, heap+1<<32+(i/3000*1000+i%1000)*64, tachyon.ObjectChannel, "a"))
		s.wakes(g)
	}
	testenv.Within(t, "the highest number in the end", last, 1000, 5000)
	testenv.Within(t, "objects in the end", len(s.known), 0, 5000)
}
