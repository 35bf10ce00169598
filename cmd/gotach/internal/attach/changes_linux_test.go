//go:build amd64 || arm64

package attach

import (
	"debug/buildinfo"
	"reflect"
	"testing"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
)

// A scripted is the memory of a process with one goroutine, which may change before any piece of it is read.
type scripted struct {
	*Process
	parts  map[uint64][]byte
	before func(addr uint64) // is called before a piece is read
}

const (
	theList, theArray, theG, theStack, theLabels = 0x1000, 0x2000, 0x10000, 0x20000, 0x30000
	stackSize                                    = 2048
)

// newScripted makes a goroutine that waits in a function that main.outer has called, and has the label a=b.
func newScripted() *scripted {
	l := goruntime.Layouts["go1.26"]
	s := &scripted{parts: map[uint64][]byte{
		theList: make([]byte, 24), theArray: make([]byte, 8), theG: make([]byte, headSize(l)), theStack: make([]byte, stackSize), theLabels: make([]byte, 64),
	}}
	call := func(name string, top bool) *place {
		return &place{frames: []Frame{{Func: name}}, wraps: []bool{false}, name: name, delta: 8, top: top, ok: true}
	}
	s.Process = &Process{program: &program{info: &buildinfo.BuildInfo{}, layout: l, minor: 26, allgs: theList, funcs: functions{layout: l, cache: map[uint64]*place{
		0x400100: call("main.inner", false), 0x400101: call("main.other", false), 0x400200: call("main.outer", true), 0x400300: call("main.outer", true),
	}}}}
	s.from, s.program.funcs.mem = s.readv, &s.memory
	s.set(theList, theArray, 1, 1)
	s.set(theArray, theG)
	g := func(off uintptr, v uint64) { s.set(theG+uint64(off), v) }
	g(l.GStackLo, theStack)
	g(l.GStackHi, theStack+stackSize)
	g(l.GID, 7)
	g(l.GSchedSP, theStack+1024)
	g(l.GSchedPC, 0x400100)
	g(l.GStartPC, 0x400300)
	g(l.GLabels, theLabels)
	s.part(theG + uint64(l.GStatus))[0] = goruntime.GWaiting
	s.set(theStack+1024, 0x400200, 0x400200)
	s.set(theLabels, theLabels+16, 1)
	s.set(theLabels+16, theLabels+48, 1, theLabels+49, 1)
	copy(s.part(theLabels+48), "ab")
	return s
}

// part returns the memory from an address on.
func (s *scripted) part(addr uint64) []byte {
	for at, b := range s.parts {
		if addr >= at && addr < at+uint64(len(b)) {
			return b[addr-at:]
		}
	}
	return nil
}

func (s *scripted) set(addr uint64, words ...uint64) {
	for i, w := range words {
		le.PutUint64(s.part(addr+uint64(i)*8), w)
	}
}

// readv reads the pieces in their order, as the kernel does.
func (s *scripted) readv(b []byte, from []unix.RemoteIovec) (n int, err error) {
	for _, v := range from {
		if s.before != nil {
			s.before(uint64(v.Base))
		}
		part := s.part(uint64(v.Base))
		if len(part) < v.Len {
			return n, unix.EFAULT
		}
		n += copy(b[n:n+v.Len], part)
	}
	return n, nil
}

// A stack counts only if the head of its goroutine is the same after it as before it. Otherwise it may be half of one stack and half of another,
// and is read again.
func TestTorn(t *testing.T) {
	l := goruntime.Layouts["go1.26"]
	words := map[string]func(s *scripted){
		"id":     func(s *scripted) { s.set(theG+uint64(l.GID), 8) },
		"sp":     func(s *scripted) { s.set(theG+uint64(l.GSchedSP), theStack+1032) },
		"pc":     func(s *scripted) { s.set(theG+uint64(l.GSchedPC), 0x400101) },
		"status": func(s *scripted) { s.part(theG + uint64(l.GStatus))[0] = goruntime.GRunnable },
		"scan":   func(s *scripted) { s.part(theG + uint64(l.GStatus))[1] = goruntime.GScan >> 8 },
		"reason": func(s *scripted) { s.part(theG + uint64(l.GWaitReason))[0]++ },
		"seq":    func(s *scripted) { s.part(theG + uint64(l.GTrackingSeq))[0]++ },
		"lo":     func(s *scripted) { s.set(theG+uint64(l.GStackLo), theStack-2048) },
		"hi":     func(s *scripted) { s.set(theG+uint64(l.GStackHi), theStack+stackSize-8) },
	}
	for name, change := range words {
		s := newScripted()
		stacks := 0
		s.before = func(addr uint64) {
			switch {
			case addr >= theStack && addr < theStack+stackSize:
				stacks++
			case addr == theG && stacks == 1: // right after the first stack
				stacks++
				change(s)
				s.set(theStack+1024, 0x400300, 0x400300, 0x400300) // another one has called the function
			}
		}
		var heads []walk
		_, err := s.refresh()
		testenv.OK(t, err)
		testenv.OK(t, s.heads([]int{0}, func(i int, b []byte) { heads = append(heads, walk{index: i, head: parse(b, l)}) }))
		testenv.OK(t, s.walks(heads, fewTries))
		pcs := heads[0].pcs
		if never := name == "id" || name == "scan"; heads[0].ok == never || never && pcs != nil || !never && pcs[len(pcs)-1] != 0x400300 {
			t.Errorf("%s changes: calls %#x", name, pcs)
		}
	}
	// It may have moved before its stack is read for the first time.
	s := newScripted()
	_ = testenv.Must(s.refresh())
	w := []walk{{head: parse(s.part(theG), l)}}
	words["sp"](s)
	s.set(theStack+1032, 0x400300, 0x400300) // arm64 has return addresses at the stack pointer
	testenv.OK(t, s.walks(w, fewTries))
	if want := []uint64{0x400100, 0x400300}; !reflect.DeepEqual(w[0].pcs, want) {
		t.Errorf("calls %#x, want %#x", w[0].pcs, want)
	}
	// A goroutine that moved once is read again, and one that always moves is counted.
	for _, c := range []struct{ changes, moved int }{{1, 0}, {1 << 30, 1}} {
		s := newScripted()
		read := false
		s.before = func(addr uint64) {
			if addr == theG && read && c.changes > 0 {
				c.changes--
				words["seq"](s)
			}
			read = addr >= theStack && addr < theStack+stackSize
		}
		list, moved, err := s.Goroutines()
		testenv.OK(t, err)
		if moved != c.moved || len(list) != 1-c.moved {
			t.Errorf("%d moved, want %d: %+v", moved, c.moved, list)
		}
	}
}

// A goroutine that the collector holds may be moved meanwhile. In a core nothing moves.
func TestScanned(t *testing.T) {
	for moved, threads := range []map[uint64]regs{{}, nil} {
		s := newScripted()
		s.threads = threads
		s.part(theG + uint64(s.program.layout.GStatus))[1] = goruntime.GScan >> 8
		list, n, err := s.Goroutines()
		testenv.OK(t, err)
		if n != moved || len(list) != 1-moved || moved == 0 && len(list[0].Frames) != 2 {
			t.Errorf("in a core: %v; %d moved: %+v", threads != nil, n, list)
		}
	}
}

// Labels count only if the goroutine still has them after they were read: others may lie at their place by then.
func TestTornLabels(t *testing.T) {
	s := newScripted()
	if got := s.labels(theG, theLabels); !reflect.DeepEqual(got, map[string]string{"a": "b"}) {
		t.Errorf("labels %v", got)
	}
	s.before = func(addr uint64) {
		if addr == theLabels+48 {
			s.set(theG+uint64(goruntime.Layouts["go1.26"].GLabels), theLabels+8)
		}
	}
	if got := s.labels(theG, theLabels); got != nil {
		t.Errorf("labels %v of a goroutine that has others", got)
	}
}
