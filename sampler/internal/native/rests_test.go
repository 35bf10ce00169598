//go:build linux && (amd64 || arm64)

package native

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// TestRests checks at which ages goroutines that do not move have records, in ticks of a millisecond. Those that wait for locks
// have one at each look, as far as the visits of a tick go.
func TestRests(t *testing.T) {
	const goroutines = 10
	f := newFakes(t)
	defer unix.Munmap(f.memory)
	allot(f.s, 16)
	f.add(goroutines)
	for i := range uint64(goroutines) {
		f.start(i)
	}
	ages := make([][]uint64, goroutines)
	ticks := func(n int) (records int) {
		for range n {
			f.records(func(kind uint64, w uintptr) {
				if kind == recSame {
					i := mem.Load64(w + 8)
					ages[i] = append(ages[i], (f.s.now-mem.Load64(f.s.entry(i)+entryMoved*8))/1e6)
					records++
				}
			})
		}
		return records
	}
	ticks(4000)
	for i, got := range ages {
		beat := uint64(restBeat-i*restBeat/restPhases) / 1e6
		if want := []uint64{68, 135, 269, 537, beat, 1074, beat + 1074, 2148, beat + 2148}; !sameAges(got, want) {
			t.Errorf("goroutine %d has records at ages of %v ms, want %v", i, got, want)
		}
	}
	if n := ticks(5); n > goroutines {
		t.Errorf("%d records in five ticks", n)
	}
	f.s.waits.Elem = 1 // the wait reason 0
	if n := ticks(5); n != 5*goroutines {
		t.Errorf("%d goroutines that wait for a lock have %d records in five ticks", goroutines, n)
	}
	allot(f.s, 3)
	if n := ticks(5); n < 5*3 || n > 5*3+goroutines/2 { // a few are due by their age
		t.Errorf("with three visits a tick they have %d records in five ticks", n)
	}
}

// sameAges reports whether two lists are the same but for differences of a tick or two, and for records that come together.
func sameAges(a, b []uint64) bool {
	near := func(x, y uint64) bool { return x <= y+2 && y <= x+2 }
	return slices.EqualFunc(slices.CompactFunc(slices.Clone(a), near), slices.CompactFunc(slices.Clone(b), near), near)
}

// swept returns the kinds of the records that a tick makes of each goroutine.
func (f *fakes) swept() map[uint64][]uint64 {
	all := map[uint64][]uint64{}
	f.records(func(kind uint64, w uintptr) {
		index := mem.Load64(w + 8)
		if kind == recStack {
			index = mem.Load64(w + headIndex*8)
		}
		all[index] = append(all[index], kind)
	})
	return all
}

// TestSweep checks that after lookOnce one tick records all goroutines, whatever circles they are in and whether they have moved,
// and that no tick follows if that is the last look. If the ring has no room, it must be a later tick, and one tick.
func TestSweep(t *testing.T) {
	const goroutines = 300
	f := newFakes(t)
	defer unix.Munmap(f.memory)
	s := f.s
	allot(s, 16)
	f.add(goroutines + 100)
	for i := range uint64(goroutines) {
		f.start(i)
	}
	for tick := range 3000 { // a third of them move now and then, a few have just begun
		for i := range uint64(goroutines / 3) {
			if tick%int(i+1) == 0 && tick < 2500 {
				f.move(i)
			}
		}
		f.swept()
	}
	for i := range uint64(20) {
		f.start(goroutines + i)
	}
	for range 3 {
		f.swept()
	}
	f.move(0)
	f.move(goroutines - 1)
	mem.Store32(f.g(1)+s.Off.GStatus, 6)
	mem.Store32(f.g(2)+s.Off.GStatus, goruntime.GRunning)
	f.move(3)
	mem.Store64(f.g(3)+s.Off.GM, 1)
	if s.moving.n == 0 || s.active.n == 0 || s.still.n == 0 {
		t.Fatalf("the circles have %d, %d and %d entries", s.moving.n, s.active.n, s.still.n)
	}
	s.sweeps++
	all := f.swept()
	for i := range uint64(goroutines + 20) {
		want := []uint64{recSame}
		switch {
		case i == 0, i == goroutines-1:
			want = []uint64{recUnmoved, recStack}
		case i == 1:
			want = []uint64{recGone}
		case i == 2:
			want = nil // the tick sends it a signal
		case i == 3:
			want = []uint64{recUnmoved} // it begins to park
		}
		if got := all[i]; !slices.Equal(got, want) {
			t.Errorf("goroutine %d has records of the kinds %v, want %v", i, got, want)
		}
	}
	if s.sweeping != s.sweeps || s.leave != 0 {
		t.Errorf("the sweep has not ended, or there are no more ticks: %d of %d, %d", s.sweeping, s.sweeps, s.leave)
	}
	f.check(t)
	if all := f.swept(); len(all) > 20 {
		t.Errorf("the tick after it records %d goroutines", len(all))
	}

	// Their stacks need more room than there is, so two ticks record them, and a third one all once more.
	for i := range uint64(goroutines) {
		f.move(i)
	}
	s.sweeps++
	s.ticks++
	s.tail -= ringWords - ringKept - sweepWords*s.goroutines
	first := len(f.swept())
	s.ticks++
	second := len(f.swept())
	if first == 0 || first > goroutines/2 || second < goroutines/2 || s.sweeping == s.sweeps {
		t.Errorf("the ticks record %d and %d goroutines; %d of %d sweeps", first, second, s.sweeping, s.sweeps)
	}
	s.ticks++
	if all := f.swept(); len(all) < goroutines-1 || s.sweeping != s.sweeps {
		t.Errorf("the tick after them records %d goroutines; %d of %d sweeps", len(all), s.sweeping, s.sweeps)
	}

	s.sweeps++
	s.ending = 1
	s.ticks++
	s.tail -= ringWords - ringKept - 100
	if all := f.swept(); len(all) > 20 || s.sweeping == s.sweeps {
		t.Errorf("without room in the ring a tick records %d goroutines", len(all))
	}
	s.ticks++
	if all := f.swept(); len(all) < goroutines-1 || s.sweeping != s.sweeps || s.leave != 1 {
		t.Errorf("the last tick records %d goroutines; %d of %d sweeps, leave %d", len(all), s.sweeping, s.sweeps, s.leave)
	}
}
