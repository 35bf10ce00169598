//go:build amd64 || arm64

package attach

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
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
		_ = testenv.Must(s.refresh())
		testenv.OK(t, s.heads([]int{0}, func(i int, b []byte) { heads = append(heads, walk{index: i, head: parse(b, l)}) }))
		testenv.OK(t, s.walks(heads, fewTries))
		pcs := heads[0].pcs
		never := name == "id" || name == "scan"
		testenv.FailIf(t, heads[0].ok == never || never && pcs != nil || !never && pcs[len(pcs)-1] != 0x400300, "%s changes: calls %#x", name, pcs)
	}
	// It may have moved before its stack is read for the first time.
	s := newScripted()
	_ = testenv.Must(s.refresh())
	w := []walk{{head: parse(s.part(theG), l)}}
	words["sp"](s)
	s.set(theStack+1032, 0x400300, 0x400300) // arm64 has return addresses at the stack pointer
	testenv.OK(t, s.walks(w, fewTries))
	testenv.SameList(t, "calls", w[0].pcs, []uint64{0x400100, 0x400300})
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
		list, moved := testenv.Must2(s.Goroutines())
		testenv.FailIf(t, moved != c.moved || len(list) != 1-c.moved, "%d moved, want %d: %+v", moved, c.moved, list)
	}
}

// A goroutine that the collector holds may be moved meanwhile. In a core nothing moves.
func TestScanned(t *testing.T) {
	for moved, threads := range []map[uint64]regs{{}, nil} {
		s := newScripted()
		s.threads = threads
		s.part(theG + uint64(s.program.layout.GStatus))[1] = goruntime.GScan >> 8
		list, n := testenv.Must2(s.Goroutines())
		testenv.FailIf(t, n != moved || len(list) != 1-moved || moved == 0 && len(list[0].Frames) != 2, "in a core: %v; %d moved: %+v", threads != nil, n, list)
	}
}

// Labels count only if the goroutine still has them after they were read: others may lie at their place by then.
func TestTornLabels(t *testing.T) {
	s := newScripted()
	testenv.Same(t, "labels", fmt.Sprint(s.labels(theG, theLabels)), "map[a:b]")
	s.before = func(addr uint64) {
		if addr == theLabels+48 {
			s.set(theG+uint64(goruntime.Layouts["go1.26"].GLabels), theLabels+8)
		}
	}
	testenv.Same(t, "labels of a goroutine that has others", len(s.labels(theG, theLabels)), 0)
}

// A table of functions that says that it has more functions than bytes is damaged.
func TestTooManyFunctions(t *testing.T) {
	for _, count := range []uint64{0, 2, 1 << 60, 1 << 61, 1 << 63, math.MaxUint64} {
		d := append([]byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}, make([]byte, 80)...)
		for _, at := range []int{32, 40, 48, 56, 64} {
			le.PutUint64(d[at:], 72)
		}
		le.PutUint64(d[8:], count)
		testenv.FailIf(t, new(module).init(d) == nil, "%d functions are taken", count)
	}
}

// A name has no more bytes than anybody gives one, and tables have no more than fit into memory.
func TestBoundedTables(t *testing.T) {
	testenv.Within(t, "bytes of a name", len(text(append(bytes.Repeat([]byte("x"), maxText+9), 0), 0)), 0, maxText)
	l := goruntime.Layouts["go1.26"]
	m := &memory{from: func(b []byte, _ []unix.RemoteIovec) (int, error) {
		le.PutUint64(b[l.ModPCLNTable+8:], maxTables+1)
		return len(b), nil
	}}
	testenv.Fails(t, "large tables", (&functions{mem: m, layout: l}).add(1), "its tables of functions have 536870913 bytes")
}

// The list of goroutines of a process that lies gets shorter, or has addresses at the end of memory.
func TestHostileRoster(t *testing.T) {
	s := newScripted()
	known := []uint64{0x10000, 0x20000, 0x30000}
	for _, x := range []struct{ gs, want []uint64 }{
		{known, known}, {known[:1], known}, {nil, known}, {append(slices.Clone(known), math.MaxUint64-7), known}, {append(slices.Clone(known), 0x40000), append(slices.Clone(known), 0x40000)},
	} {
		n := uint64(len(x.gs))
		s.parts[theArray] = make([]byte, 8*n)
		s.set(theArray, x.gs...)
		s.set(theList, theArray, n, n)
		testenv.Same(t, fmt.Sprintf("the roster of %#x is another program's", x.gs), testenv.Err(s.refresh()) != nil, len(x.gs) < len(known))
		testenv.SameList(t, fmt.Sprintf("the roster of %#x", x.gs), s.gs, x.want)
	}
}

// Structs of the program that have numbers as Ps do are none if they lie closer together.
func TestAreProcs(t *testing.T) {
	for apart, want := range map[uint64]bool{sizeOfP: true, sizeOfP / 2: false} {
		s, l := newScripted(), goruntime.Layouts["go1.26"]
		s.parts[theArray], s.parts[theStack] = make([]byte, 24), make([]byte, 3*sizeOfP)
		for i := range uint64(3) {
			p := theStack + i*apart
			s.set(theArray+i*8, p)
			s.set(p+uint64(l.PID), i)
			s.set(p+uint64(l.PM)+8, theG)
		}
		s.set(theList, theArray, 3, 3)
		testenv.Same(t, fmt.Sprint(apart, " bytes apart"), s.areProcs(s.part(theList), l), want)
	}
}

// Goroutines that all have the same stack have no more calls than may be kept, nor labels.
func TestManyCalls(t *testing.T) {
	for most, ok := range map[int]bool{1: false, 3: false, 2 + callsOfLabel: true} {
		s := newScripted()
		s.most = most
		list, _, err := s.Goroutines()
		testenv.FailIf(t, ok != (err == nil) || ok != (len(list) == 1), "at most %d: %d goroutines, %v", most, len(list), err)
	}
}

// The executable of a core is the file that is mapped where the program began, also after others. A list of files that says that it has more than it has gives none.
func TestFileAt(t *testing.T) {
	for _, tt := range []struct {
		count uint64
		names string
		addr  uint64
		want  string
	}{
		{3, "/a\x00/b c\x00/d\x00", 0x2000, "/b c"},
		{3, "/a\x00/b c\x00/d\x00", 0x3fff, "/d"},
		{3, "/a\x00/b c\x00/d\x00", 0x4000, ""},
		{3, "/a\x00", 0x3000, ""},
		{4, "/a\x00", 0x1000, ""},
		{math.MaxUint64, "/a\x00", 0x1000, ""},
	} {
		b := le.AppendUint64(le.AppendUint64(nil, tt.count), 4096)
		for _, at := range []uint64{0x1000, 0x2000, 0x3000} {
			b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, at), at+0x1000), 0)
		}
		testenv.Same(t, tt, fileAt(append(b, tt.names...), tt.addr), tt.want)
	}
	testenv.Same(t, "a list without a number", fileAt(make([]byte, 15), 0), "")
}

// A core whose parts overlap would have any amount of memory.
func TestOverlappingCore(t *testing.T) {
	core := func(parts int) string {
		head := elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_CORE), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(parts)}
		b := testenv.Must(binary.Append(nil, le, head))
		for i := range parts {
			b = testenv.Must(binary.Append(b, le, elf.Prog64{Type: uint32(elf.PT_LOAD), Vaddr: uint64(i) << 12, Filesz: 64}))
		}
		path := filepath.Join(t.TempDir(), "core")
		testenv.OK(t, os.WriteFile(path, b, 0o600))
		return path
	}
	testenv.Fails(t, "one part", testenv.Err(OpenCore(core(1), os.Args[0])), "it is of another build")
	testenv.Fails(t, "overlapping parts", testenv.Err(OpenCore(core(100), os.Args[0])), "overlap")
}
