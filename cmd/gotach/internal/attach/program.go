//go:build linux && (amd64 || arm64)

package attach

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/session"
)

//go:generate go run ../../../../internal/goruntime/gen -older -o older_gen.go go1.25.3 go1.24.13 go1.23.12 go1.22.12 go1.21.13 go1.20.14 go1.19.13

// A program is what a process runs.
type program struct {
	info   *buildinfo.BuildInfo
	layout *goruntime.Layout
	minor  int // 26 of Go 1.26
	image  goruntime.Image
	funcs  functions
	allgs  uint64   // address of the runtime's list of goroutines, a slice
	allps  []uint64 // addresses of what may be its list of Ps
	path   string   // of the executable or library, as the kernel says it
	file   string   // where it can be read
	inC    bool     // it is a library in a program of C: goroutine 1 has ended, and its runtime.g may be another one's
	build  string   // its build ID
}

// errEarly says that the runtime's variables are not there, as before it has begun.
var errEarly = errors.New("its list of goroutines was not found in its memory")

// load reads the program that a memory belongs to. name is the path of its executable or library as
// the kernel says it. base is where the library begins; of an executable it is 0, and entry the
// address at which the program begins.
func (m *memory) load(file *os.File, name string, base, entry uint64) (*program, error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, ErrNotGo
	}
	p := &program{path: name, file: file.Name(), build: session.BuildID(file)}
	bias := cmp.Or(base, entry-f.Entry) // the address of link-time address 0
	if p.info, err = buildinfo.Read(file); err != nil {
		return nil, ErrNotGo
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]; f.Machine != want {
		return nil, fmt.Errorf("it is a program for %v, and this gotach is for %s", f.Machine, runtime.GOARCH)
	}
	if p.layout, p.minor, err = layoutOf(p.info.GoVersion); err != nil {
		return nil, err
	}
	p.inC = slices.ContainsFunc(p.info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-buildmode" && strings.HasPrefix(s.Value, "c-") })
	p.image.Bias = uintptr(bias)
	var data []span
	for _, s := range f.Progs {
		if lo := s.Vaddr + bias; s.Type == elf.PT_LOAD && s.Flags&elf.PF_W != 0 {
			p.image.Writable = append(p.image.Writable, goruntime.Span{Lo: uintptr(lo), Hi: uintptr(lo + s.Memsz)})
			data = append(data, span{lo, lo + min(s.Filesz, maxVariables)})
		}
	}
	table := cmp.Or(f.Section(".gopclntab"), f.Section(".data.rel.ro.gopclntab"))
	if table == nil {
		return nil, ErrNotGo
	}
	p.funcs = functions{mem: m, layout: p.layout, minor: p.minor, cache: map[uint64]*place{}}
	variables, err := m.findModule(p, data, table.Addr+bias)
	if err != nil {
		return nil, err
	}
	return p, m.findLists(p, variables)
}

// entryOf returns where a program begins, given what the kernel told it at its start (auxv). 0: it
// does not say.
func entryOf(auxv []byte) uint64 {
	const atEntry = 9
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if le.Uint64(auxv) == atEntry {
			return le.Uint64(auxv[8:])
		}
	}
	return 0
}

// A span is a part of memory.
type span struct{ lo, hi uint64 }

// maxVariables bounds what is read of a program's variables, in bytes.
const maxVariables = 256 << 20

// maxProcs is the most Ps that a program is taken to have. A P has at least sizeOfP bytes, most of
// them queues and buffers.
const maxProcs, sizeOfP = 1 << 12, 1 << 12

// findModule finds runtime.firstmoduledata in the part of the program's variables that its file
// has. It begins with the address of the table of functions. findModule returns the variables that
// can hold pointers.
func (m *memory) findModule(p *program, data []span, table uint64) (variables []span, err error) {
	l := p.layout
	errAt := m.search(data, int(l.ModNext+8), func(module uint64, b []byte) bool {
		at := func(off uintptr) uint64 { return le.Uint64(b[off:]) }
		text, etext := at(l.ModText), at(l.ModEText)
		if at(0) != table || text == 0 || text >= etext || etext-text > 1<<32 || at(l.ModData) > at(l.ModEData) || at(l.ModBSS) > at(l.ModEBSS) {
			return false
		}
		variables = []span{{at(l.ModBSS), at(l.ModEBSS)}, {at(l.ModData), at(l.ModEData)}}
		err = p.funcs.add(module)
		return true
	})
	if err = cmp.Or(errAt, err); err == nil && variables == nil {
		err = errEarly
	}
	return variables, err
}

// search passes on the words of parts of memory, each with size bytes from there on, until each
// returns true.
func (m *memory) search(parts []span, size int, each func(at uint64, b []byte) bool) error {
	const step = 1 << 20
	part := make([]byte, step+size)
	for _, v := range parts {
		for at := v.lo &^ 7; at < v.hi; at += step {
			b := part[:min(uint64(len(part)), v.hi-at)]
			if err := m.read(at, b); err != nil {
				return err
			}
			for o := 0; o+size <= len(b) && o < step; o += 8 {
				if each(at+uint64(o), b[o:]) {
					return nil
				}
			}
		}
	}
	return nil
}

// findLists finds runtime.allgs and what may be runtime.allp. runtime.allgs is the slice whose
// first element is goroutine 1, which the runtime makes first. While the collector marks there is a
// second slice of the same array (work.stackRoots), whose capacity is only its length. So of all
// slices that are found, allgs is the one that has the largest capacity when they are looked at
// again. If two have, the collector is not done.
func (m *memory) findLists(p *program, variables []span) error {
	l := p.layout
	var found []uint64
	if err := m.search(variables, 24, func(at uint64, b []byte) bool {
		switch {
		case m.areGoroutines(b, p):
			found = append(found, at)
		case m.areProcs(b, l):
			p.allps = append(p.allps, at)
		}
		return false
	}); err != nil {
		return err
	}
	most, same := uint64(0), false
	for _, at := range found {
		b, err := m.bytes(at, 24)
		switch c := le.Uint64(b[16:]); {
		case err != nil, !m.areGoroutines(b, p):
		case c > most:
			p.allgs, most, same = at, c, false
		case c == most:
			same = true
		}
	}
	if p.allgs == 0 || same && m.pid != 0 { // in a core both have the same goroutines
		return errEarly
	}
	return nil
}

// areGoroutines reports whether three words are a slice of goroutines, the first of which has the
// number 1 unless it has ended. It looks at some.
func (m *memory) areGoroutines(slice []byte, p *program) bool {
	array, n, c := le.Uint64(slice), le.Uint64(slice[8:]), le.Uint64(slice[16:])
	if array < 4096 || array&7 != 0 || array>>56 != 0 || n < 2 || n > c || c > 1<<26 {
		return false
	}
	const some = 64
	l := p.layout
	size := uint64(headSize(l))
	alive := false
	for i := range min(n, some) {
		g, _ := m.word(array + i*8) // nothing is at 0
		head, err := m.bytes(g, size)
		if err != nil {
			return false
		}
		h := parse(head, l)
		n := h.hi - h.lo
		stack := h.lo >= 4096 && h.hi > h.lo && n&(n-1) == 0 && n >= 2048
		if h.status > goruntime.GDeadExtra || i == 0 && !p.inC && (h.id != 1 || !stack) || !stack && (goruntime.Alive(h.status) || h.lo != 0) {
			return false
		}
		alive = alive || goruntime.Alive(h.status)
	}
	last, _ := m.word(array + (n-1)*8)
	_, err := m.bytes(last, size)
	return err == nil && alive
}

// areProcs reports whether three words are a slice of Ps, which have numbers from 0 on. The last
// element is that of the highest. What it looks at never changes, or only to what it accepts.
func (m *memory) areProcs(slice []byte, l *goruntime.Layout) bool {
	array, n, c := le.Uint64(slice), le.Uint64(slice[8:]), le.Uint64(slice[16:])
	if array < 4096 || array&7 != 0 || array>>56 != 0 || n < 1 || n > c || c > maxProcs {
		return false
	}
	for i, last := uint64(0), uint64(0); i < n; i++ {
		at, _ := m.word(array + i*8) // nothing is at 0
		p, err := m.bytes(at, uint64(l.PM)+16)
		if err != nil || max(at, last)-min(at, last) < sizeOfP || le.Uint32(p[l.PID:]) != uint32(i) || le.Uint32(p[l.PStatus:]) > goruntime.PGCStop || le.Uint64(p[l.PM+8:]) < 4096 {
			return false // the last one is mcache
		}
		last = at
		if of := le.Uint64(p[l.PM:]); of != 0 {
			g0, _ := m.word(of + uint64(l.MG0))
			if back, err := m.word(g0 + uint64(l.GM)); err != nil || back != of {
				return false
			}
		}
	}
	return true
}

// procs returns GOMAXPROCS, 0 if it is not known. A slice of one element may look like the list by
// chance, a longer one does not.
func (p *Process) procs() (n int) {
	for _, at := range p.program.allps {
		b, err := p.bytes(at, 24)
		if err == nil && p.areProcs(b, p.program.layout) {
			n = max(n, int(le.Uint64(b[8:])))
		}
	}
	return n
}

// layoutOf returns the layout for a version as the program's build information has it, such as
// "go1.26.8", and its second number.
func layoutOf(version string) (l *goruntime.Layout, minor int, err error) {
	key := goruntime.Release(version)
	if l = cmp.Or(goruntime.Layouts[key], older[key]); l != nil {
		_, err = fmt.Sscanf(key, "go1.%d", &minor)
		return l, minor, err
	}
	return nil, 0, fmt.Errorf("the runtime of Go version %q is not known here; Go 1.19 to 1.27 are", version)
}
