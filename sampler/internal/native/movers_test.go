//go:build linux && (amd64 || arm64)

package native

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// move lets a waiting goroutine run and wait again.
func (f *fakes) move(i uint64) {
	seq := f.g(i) + f.s.Off.GTrackingSeq
	mem.Store32(seq&^3, mem.Load32(seq&^3)+1<<(8*(seq&3)))
	mem.Store64(f.g(i)+f.s.Off.GWaitSince, 0)
}

// TestMovers checks that goroutines that move are visited at every tick, beside many that do not move,
// that these are visited too, and that a tick knows to which of them something has happened.
func TestMovers(t *testing.T) {
	const goroutines, movers, visits = 640, 10, 20
	f := newFakes(t)
	defer unix.Munmap(f.memory)
	allot(f.s, visits)
	f.add(goroutines)
	for i := range uint64(goroutines) {
		f.start(i)
	}
	const input = 5 // the reason of one that waits for input: all others wake up for a timer
	f.s.waits.Poll = 1 << input
	reason := f.g(goroutines/movers) + f.s.Off.GWaitReason
	mem.Store32(reason&^3, input<<(8*(reason&3)))
	const usual = 300 // ticks until it is known which goroutines move
	others := map[uint64]bool{}
	for tick := range 2 * usual {
		events := uint64(1)
		for i := range uint64(movers) {
			f.move(i * goroutines / movers)
			if pc := f.g(i*goroutines/movers) + f.s.Off.GSchedPC; tick%2 == 0 && i%2 == 0 {
				mem.Store64(pc, mem.Load64(pc)^4096) // it waits at another place than before
				events++
			}
		}
		mem.Store32(f.g(3*goroutines/movers)+f.s.Off.GStatus, []uint32{goruntime.GWaiting, goruntime.GRunnable}[tick%2]) // that it has been woken is nothing
		f.s.events = 0
		told := f.tick(t)
		if tick >= usual && f.s.events != events {
			t.Fatalf("tick %d: something has happened to %d goroutines, not %d", tick, f.s.events, events)
		}
		for i := range uint64(goroutines) {
			goid := mem.Load64(f.g(i) + f.s.Off.GID)
			_, visited := told[goid]
			if moves := i%(goroutines/movers) == 0; !moves && visited {
				others[goid] = true
			} else if moves && !visited && tick >= usual {
				t.Fatalf("tick %d does not visit goroutine %d, which moves", tick, goid)
			}
		}
		f.check(t)
	}
	if len(others) != goroutines-movers {
		t.Errorf("%d of %d goroutines that do not move were visited", len(others), goroutines-movers)
	}
}

// TestMoversInTurn has more goroutines that move between two ticks than a tick may visit. Each is visited in its turn.
func TestMoversInTurn(t *testing.T) {
	const movers, visits = 100, 16
	f := newFakes(t)
	defer unix.Munmap(f.memory)
	allot(f.s, visits)
	f.add(movers)
	for i := range uint64(movers) {
		f.start(i)
	}
	last := map[uint64]int{}
	for tick := range 400 {
		for i := range uint64(movers) {
			f.move(i)
		}
		f.s.wanted = 0
		told := f.tick(t)
		for goid := range told {
			last[goid] = tick
		}
		if tick < 100 {
			continue // until it is known which goroutines move
		}
		if len(told) != visits {
			t.Fatalf("tick %d visits %d goroutines", tick, len(told))
		}
		if w := f.s.wanted; w < movers*9/10 || w > movers*11/10 {
			t.Fatalf("tick %d has %d goroutines that move, by what it found", tick, w)
		}
		for goid := range uint64(movers) {
			if at := last[goid+1]; tick-at > movers/visits+1 {
				t.Fatalf("tick %d: goroutine %d was last visited at tick %d", tick, goid+1, at)
			}
		}
		f.check(t)
	}
}
