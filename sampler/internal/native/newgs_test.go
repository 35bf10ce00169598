//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/sampler/internal/source"
)

// TestNewGs runs short goroutines in gs that the runtime makes for them, and in gs that it reuses. Ticks must see
// the former as often as the latter.
func TestNewGs(t *testing.T) {
	if !alone(t) {
		return // there are free gs that the tests before have left
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one P, so a g that is free is reused
	defer park(300)()
	const rounds, known = 30, 10
	uses := map[uintptr]int{}
	before := map[uint64]int{} // by goroutine: how many had its g before
	short := func() {
		type life struct {
			g    uintptr
			goid uint64
		}
		done := make(chan life)
		go func() {
			time.Sleep(5 * time.Millisecond)
			done <- life{getg(), currentGoid()}
		}()
		l := <-done
		before[l.goid] = uses[l.g]
		uses[l.g]++
	}
	r, stats := session(t, source.Config{}, func() {
		var ends []func()
		for range 4 {
			for range rounds + known {
				short()
			}
			for range rounds {
				ends = append(ends, park(1)) // in the g of the short one before
				short()
			}
		}
		for _, end := range ends {
			end()
		}
	})
	seen := map[uint64]bool{}
	for _, s := range r.samples {
		seen[s.goroutine] = true
	}
	var all, found [2]int
	for goid, n := range before {
		i := 0
		switch {
		case n == 0:
			i = 1
		case n < known:
			continue
		}
		all[i]++
		if seen[goid] {
			found[i]++
		}
	}
	t.Logf("seen: %d of %d in new gs, %d of %d in others; %+v", found[1], all[1], found[0], all[0], stats)
	if all[0] < 3*rounds || all[1] < 3*rounds {
		t.Fatalf("%d goroutines are in new gs, %d in others", all[1], all[0])
	}
	if of := float64(found[0]) / float64(all[0]); float64(found[1])/float64(all[1]) < of-0.25 {
		t.Errorf("%d of %d goroutines in new gs are seen, of the others %d of %d", found[1], all[1], found[0], all[0])
	}
}

// TestReadNew reads lists that the runtime is about to change.
func TestReadNew(t *testing.T) {
	l, err := layoutOf(runtime.Version())
	if err != nil {
		t.Fatal(err)
	}
	page := uintptr(unix.Getpagesize())
	head := (unsafe.Sizeof(shared{}) + 63) &^ 63
	m, err := mapMemory(head + 64 + chunkSize*entryWords*8 + 100*fakeSize + page + page)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	base := m.addr()
	s, chunk := at(base), base+head+64
	gs, list := chunk+chunkSize*entryWords*8, (chunk+chunkSize*entryWords*8+100*fakeSize+page)&^(page-1)
	s.off, s.pid, s.allgs, s.chunks = l.offsets, uint64(unix.Getpid()), base+head, base+head+32
	store64(s.chunks, uint64(chunk))
	s.now, s.visitLimit, s.period = 1e9, 1<<62, 1e6
	s.adds, s.mapped, s.most = 1, chunkSize, 90
	if plainReads {
		s.plain = 1
	}
	length := func(n uint64) { store64(s.allgs+8, n) }
	store64(s.allgs, uint64(list))
	g := func(i uint64) uint64 { return uint64(gs) + i*fakeSize }
	for i := range uint64(100) {
		store64(list+uintptr(i)*8, g(i))
		store32(uintptr(g(i))+s.off.gStatus, gDead)
	}
	tick := func(want uint64, complete bool) {
		t.Helper()
		before := s.listedAt
		s.before, s.now = s.now, s.now+1e6
		addNew(base, 0, 0, 0)
		if s.goroutines != want || s.listed != want {
			t.Errorf("%d entries, %d read, want %d", s.goroutines, s.listed, want)
		}
		if at := s.listedAt; complete != (at == s.now) || !complete && at != before {
			t.Errorf("all was read at %d, now is %d", at, s.now)
		}
	}
	length(3)
	tick(3, true)
	length(50)
	store64(list+40*8, 0) // not stored yet
	tick(40, false)
	since := s.listedAt
	store64(list+40*8, g(40))
	tick(50, true)
	for i := range s.goroutines {
		if got := load64(s.entry(i) + entryG*8); got != g(i) {
			t.Errorf("entry %d has %#x, want %#x", i, got, g(i))
		}
	}
	if at := load64(s.entry(45) + entryLooked*8); at != since {
		t.Errorf("the goroutine of an entry of a later tick began after %d, want %d", at, since)
	}
	length(60)
	if s.plain == 0 {
		store64(list+55*8, 1<<40) // not mapped
		tick(55, false)
		store64(list+55*8, uint64(list)) // no g
		store64(list+s.off.gStatus, 99)
		tick(55, false)
		store64(list+s.off.gStatus, g(uint64(s.off.gStatus/8)))
		store64(list+55*8, g(55))
		store64(s.allgs, 1<<40) // not mapped
		tick(55, false)
		store64(s.allgs, uint64(list))
	}
	tick(60, true)
	length(100)
	if tick(90, false); s.full != 1 {
		t.Error("the roster is full, and the drain does not hear of it")
	}
	tick(90, false)
}
