//go:build amd64 || arm64

package attach

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
)

const theSudogs, sudogSize = 0x40000, 128

// The objects of a wait count only if the goroutine waits for them after they were read too.
func TestObjectsOf(t *testing.T) {
	l := goruntime.Layouts["go1.26"]
	const addr = 0xc000_1000
	next := func(s *scripted) {
		s.set(theSudogs+uint64(l.SudogWaitLink), theSudogs+sudogSize)
		s.set(theSudogs+sudogSize+uint64(l.SudogC), addr+64)
	}
	g := func(s *scripted, off uintptr, v uint64) { s.set(theG+uint64(off), v) }
	for _, tt := range []struct {
		name, reason string
		change       func(s *scripted) // before the first sudog is read
		want         []uint64
	}{
		{"a lock", "sync.Mutex.Lock", nil, []uint64{addr + 8 - uint64(l.MutexSema)}},
		{"a semaphore", "semacquire", nil, []uint64{addr + 8}},
		{"a channel", "chan receive", nil, []uint64{addr}},
		{"a channel that others wait for", "chan receive", next, []uint64{addr}},
		{"a select", "select", next, []uint64{addr, addr + 64}},
		{"no object", "sleep", nil, nil},
		{"it is being woken", "chan receive", func(s *scripted) { s.set(theSudogs+uint64(l.SudogC), 0) }, nil},
		{"it moves", "chan receive", func(s *scripted) { s.part(theG + uint64(l.GTrackingSeq))[0]++ }, nil},
		{"it waits for another", "chan receive", func(s *scripted) { g(s, l.GWaiting, theSudogs+sudogSize) }, nil},
		{"the collector looks at it", "chan receive", func(s *scripted) { s.part(theG + uint64(l.GStatus))[1] = goruntime.GScan >> 8 }, []uint64{addr}},
		{"it cannot be read", "chan receive", func(s *scripted) { delete(s.parts, theSudogs) }, nil},
	} {
		s := newScripted()
		s.parts[theSudogs] = make([]byte, 2*sudogSize)
		s.part(theG + uint64(l.GWaitReason))[0] = byte(slices.Index(l.Reasons, tt.reason))
		g(s, l.GWaiting, theSudogs)
		s.set(theSudogs+uint64(l.SudogC), addr)
		s.set(theSudogs+uint64(l.SudogElem), addr+8)
		_ = testenv.Must(s.refresh())
		list := []walk{{}}
		testenv.OK(t, s.heads([]int{0}, func(i int, b []byte) { list[0].head = parse(b, l) }))
		testenv.OK(t, s.walks(list, fewTries))
		s.before = func(at uint64) {
			if at == theSudogs && tt.change != nil {
				s.before = nil
				tt.change(s)
			}
		}
		if s.objectsOf(list); !slices.Equal(list[0].objects, tt.want) {
			t.Errorf("%s: %#x, want %#x", tt.name, list[0].objects, tt.want)
		}
	}
}

// A collection is noticed by its sweeper, also one that is still to sweep.
func TestCollections(t *testing.T) {
	l := goruntime.Layouts["go1.26"]
	s := newScripted()
	r, _ := scriptedRecorder(t, s, Options{Interval: time.Millisecond})
	count := func() string { a := r.collections(); return fmt.Sprint(r.collections() == a) }
	got := count() // its address is not known
	r.sweeper = theG
	got += " " + count()
	before := r.collections()
	s.part(theG + uint64(l.GTrackingSeq))[0]++
	got += fmt.Sprint(" ", r.collections() == before, " ", count())
	s.part(theG + uint64(l.GStatus))[0] = goruntime.GRunnable
	got += " " + count()
	s.part(theG + uint64(l.GStatus))[0] = goruntime.GWaiting
	if got += " " + count(); got != "false true false true false true" {
		t.Error(got)
	}
}
