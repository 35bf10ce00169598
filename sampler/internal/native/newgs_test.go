//go:build linux && (amd64 || arm64)

package native

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
)

// TestReadNew reads lists that the runtime is about to change. Goroutines in new gs are visited at the same tick.
func TestReadNew(t *testing.T) {
	f := newFakes(t)
	defer unix.Munmap(f.memory)
	s := f.s
	memory, err := mem.Map(4096) // the list
	testenv.OK(t, err)
	defer unix.Munmap(memory)
	list := memory.Addr()
	s.pid, s.allgs = uint64(unix.Getpid()), f.g(mostFakes-1)
	s.adds, s.mapped, s.most = 1, chunkSize, 90
	if mem.PlainReads {
		s.plain = 1
	}
	length := func(n uint64) { mem.Store64(s.allgs+8, n) }
	mem.Store64(s.allgs, uint64(list))
	for i := range uint64(100) {
		mem.Store64(list+uintptr(i)*8, uint64(f.g(i)))
		mem.Store32(f.g(i)+s.Off.GStatus, goruntime.GDead)
	}
	tick := func(want uint64, complete bool) {
		t.Helper()
		before := s.listedAt
		s.before, s.now = s.now, s.now+s.period
		addNew(s)
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
	mem.Store64(list+40*8, 0) // not stored yet
	tick(40, false)
	since := s.listedAt
	mem.Store64(list+40*8, uint64(f.g(40)))
	tick(50, true)
	for i := range s.goroutines {
		if got := mem.Load64(s.entry(i) + entryG*8); got != uint64(f.g(i)) {
			t.Errorf("entry %d has %#x, want %#x", i, got, f.g(i))
		}
	}
	if at := mem.Load64(s.entry(45) + entryLooked*8); at != since {
		t.Errorf("the goroutine of an entry of a later tick began after %d, want %d", at, since)
	}
	length(60)
	if s.plain == 0 {
		mem.Store64(list+55*8, 1<<40) // not mapped
		tick(55, false)
		mem.Store64(list+55*8, uint64(list)) // no g
		mem.Store64(list+s.Off.GStatus, 99)
		tick(55, false)
		mem.Store64(list+s.Off.GStatus, uint64(f.g(uint64(s.Off.GStatus/8))))
		mem.Store64(list+55*8, uint64(f.g(55)))
		mem.Store64(s.allgs, 1<<40) // not mapped
		tick(55, false)
		mem.Store64(s.allgs, uint64(list))
	}
	tick(60, true)

	allot(s, 10)
	f.tick(t)
	listed := s.listedAt
	length(70)
	for i := uint64(60); i < 70; i++ {
		f.start(i)
	}
	addNew(s)
	told := f.tick(t)
	for goid := range f.began {
		if since, visited := told[goid]; !visited || since != s.now-listed {
			t.Errorf("goroutine %d in a new g: visited %v, for the time since %d", goid, visited, s.now-since)
		}
	}

	length(100)
	if tick(90, false); s.full != 1 {
		t.Error("the roster is full, and the drain does not hear of it")
	}
	tick(90, false)
}
