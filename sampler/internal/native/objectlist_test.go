//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/objects"
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
	d := &drain{l: l, gs: make([]goroutine, 1000), image: &goruntime.Image{}}
	d.stacks = newStacks(newRecorder(), l, nil, true)
	d.objects = d.newObjects()
	d.objects.Cycle = 1
	return &sightings{d, map[string]*stack{}, 0}
}

// waits lets goroutine i wait for the object at an address, with a stack of one function. It returns
// the number that the goroutine's stack has then.
func (s *sightings) waits(i uint64, addr uint64, kind, function string) int32 {
	st := s.stacks[function]
	if st == nil {
		st = &stack{ids: []uint32{0, 1}, valid: true, callers: objects.Callers{s.drain.stacks.functions.Number(function)}, key: uint64(len(s.stacks)), reason: kind}
		s.stacks[function] = st
	}
	g := &s.gs[i]
	g.id, g.wait, g.waits = i+1, 0, g.waits[:0]
	g.addWait(addr)
	g.parked = s.drain.stacks.numbered(st, s.objects.Wait(objects.Waiter{Index: i, ID: g.id, G: s.g}, kind, []uint64{addr}, st.callers))
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

// TestTurnAfterCollection has a collection between turns. In the turn that finds it nothing is known about the order.
func TestTurnAfterCollection(t *testing.T) {
	d := newSightings()
	next := func() uint64 { d.objects.Turn(d.objects.Now+time.Second, d.cycles.count()); return d.objects.Cycle }
	testenv.Await(func() bool { next(); return next() != 0 }) // no collection by another cause between two turns
	before := d.objects.Cycle
	runtime.GC()
	if next() != 0 {
		t.Error("the turn after a collection counts as one before it")
	}
	testenv.Await(func() bool { return next() != 0 })
	if after := d.objects.Cycle; before == after {
		t.Errorf("cycle %d before the collection, %d after it", before, after)
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
	check("its capacity", int32(s.gs[1].parked.object.Capacity), 3)
	s.wakes(0)
	s.wakes(1)
	s.objects.Cycle = 2
	check("the same channel after a collection", waits(3), 1)
	s.wakes(3)
	s.objects.Cycle = 3
	*word(channel, s.l.HchanSize) = 4
	check("the other channel", waits(4), 0)
	check("the other channel, the second goroutine", waits(5), 2)
}
