//go:build linux && (amd64 || arm64)

package attach

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
)

// A program is what a process runs.
type program struct {
	info   *buildinfo.BuildInfo
	layout *goruntime.Layout
	minor  int    // 26 of Go 1.26
	bias   uint64 // the address of link-time address 0
	image  goruntime.Image
	funcs  functions
	allgs  uint64 // address of the runtime's list of goroutines, a slice
	path   string // of the executable, as the kernel says it
	build  string // the linker's build ID, or ""
}

// errNotGo says that a process runs something else.
var errNotGo = errors.New("it is no Go program, or one that was packed")

// errEarly says that the runtime's variables are not there, as before it has begun.
var errEarly = errors.New("its list of goroutines was not found in its memory")

// load reads the program that a memory belongs to. name is the executable's path as the kernel says it, and entry the address at which the program begins.
func (m *memory) load(file *os.File, name string, entry uint64) (*program, error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, errNotGo
	}
	p := &program{path: name, bias: entry - f.Entry}
	if p.info, err = buildinfo.Read(file); err != nil {
		return nil, errNotGo
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]; f.Machine != want {
		return nil, fmt.Errorf("it is a program for %v, and this gotach is for %s", f.Machine, runtime.GOARCH)
	}
	if p.layout, p.minor, err = layoutOf(p.info.GoVersion); err != nil {
		return nil, err
	}
	p.image.Bias = uintptr(p.bias)
	for _, s := range f.Progs {
		if lo := uintptr(s.Vaddr + p.bias); s.Type == elf.PT_LOAD && s.Flags&elf.PF_W != 0 {
			p.image.Writable = append(p.image.Writable, goruntime.Span{Lo: lo, Hi: lo + uintptr(s.Memsz)})
		}
	}
	table := f.Section(".gopclntab")
	if table == nil {
		table = f.Section(".data.rel.ro.gopclntab")
	}
	if table == nil {
		return nil, errNotGo
	}
	if p.funcs.data, err = sectionOf(table, maxTable); err != nil {
		return nil, fmt.Errorf("its table of functions: %w", err)
	}
	if s := f.Section(".note.go.buildid"); s != nil {
		if b, err := sectionOf(s, maxBuildID); err == nil && len(b) > 16 {
			p.build = strings.TrimRight(string(b[16:]), "\x00")
		}
	}
	p.funcs.mem, p.funcs.layout, p.funcs.minor = m, p.layout, p.minor
	variables, err := m.findModule(p, f, table.Addr+p.bias)
	if err != nil {
		return nil, err
	}
	if p.allgs, err = m.findAllgs(p.layout, variables); err != nil {
		return nil, err
	}
	return p, nil
}

// sectionOf reads a section that a program has in its memory, so it is not compressed: a compressed one may become any size.
func sectionOf(s *elf.Section, most uint64) ([]byte, error) {
	if s.Flags&elf.SHF_COMPRESSED != 0 || s.Size > most {
		return nil, fmt.Errorf("%s has %d bytes, or is compressed", s.Name, s.Size)
	}
	return s.Data()
}

// entryOf returns where a program begins, given what the kernel told it at its start (auxv). 0: it does not say.
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

// Bounds of what is read of a program's file: of its variables, its table of functions and its build ID, in bytes.
const maxVariables, maxTable, maxBuildID = 256 << 20, 512 << 20, 4096

// findModule finds runtime.firstmoduledata, which begins with the address of the table of functions. It returns the program's
// variables that can hold pointers.
func (m *memory) findModule(p *program, f *elf.File, table uint64) ([]span, error) {
	l := p.layout
	size := int(l.ModNext + 8)
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_LOAD || segment.Flags&elf.PF_W == 0 || segment.Filesz == 0 {
			continue
		}
		if segment.Filesz > maxVariables {
			return nil, fmt.Errorf("it has %d bytes of variables", segment.Filesz)
		}
		b := make([]byte, segment.Filesz)
		if err := m.read(segment.Vaddr+p.bias, b); err != nil {
			return nil, err
		}
		for o := 0; o+size <= len(b); o += 8 {
			if le.Uint64(b[o:]) != table {
				continue
			}
			at := func(off uintptr) uint64 { return le.Uint64(b[o+int(off):]) }
			text, etext := at(l.ModText), at(l.ModEText)
			if text == 0 || text >= etext || etext-text > 1<<32 || at(l.ModData) > at(l.ModEData) || at(l.ModBSS) > at(l.ModEBSS) {
				continue
			}
			p.funcs.text, p.funcs.etext, p.funcs.gofunc = text, etext, at(l.ModGoFunc)
			if err := p.funcs.init(); err != nil {
				return nil, err
			}
			return []span{{at(l.ModBSS), at(l.ModEBSS)}, {at(l.ModData), at(l.ModEData)}}, nil
		}
	}
	return nil, errEarly
}

// findAllgs finds runtime.allgs: the slice whose first element is goroutine 1, which the runtime makes first. While the collector
// marks there is a second slice of the same array (work.stackRoots), whose capacity is only its length. So of all slices that
// are found, allgs is the one that has the largest capacity when they are looked at again. pid 0: the memory does not change.
func (m *memory) findAllgs(l *goruntime.Layout, variables []span) (uint64, error) {
	var found []uint64
	for _, v := range variables {
		const step = 1 << 20
		part := make([]byte, step+16)
		for at := v.lo &^ 7; at < v.hi; at += step {
			b := part[:min(step+16, v.hi-at)]
			if err := m.read(at, b); err != nil {
				return 0, err
			}
			for o := 0; o+24 <= len(b) && o < step; o += 8 {
				if m.areGoroutines(b[o:], l) {
					found = append(found, at+uint64(o))
				}
			}
		}
	}
	for range 100 {
		if len(found) == 0 {
			break
		}
		var best, most uint64
		same := false
		for _, at := range found {
			b, err := m.bytes(at, 24)
			if err != nil {
				return 0, err
			}
			switch c := le.Uint64(b[16:]); {
			case !m.areGoroutines(b, l):
			case c > most:
				best, most, same = at, c, false
			case c == most:
				same = true
			}
		}
		if still := m.pid == 0; best != 0 && (!same || still) { // in a core both have the same goroutines
			return best, nil
		}
		time.Sleep(time.Millisecond) // until the collector is done
	}
	return 0, errEarly
}

// areGoroutines reports whether three words are a slice of goroutines, the first of which has the number 1. It looks at some.
func (m *memory) areGoroutines(slice []byte, l *goruntime.Layout) bool {
	array, n, c := le.Uint64(slice), le.Uint64(slice[8:]), le.Uint64(slice[16:])
	if array < 4096 || array&7 != 0 || array>>56 != 0 || n < 2 || n > c || c > 1<<26 {
		return false
	}
	const some = 64
	var head []byte
	for i := range min(n, some) {
		g, err := m.word(array + i*8)
		if err != nil || g < 4096 || g&7 != 0 || g>>56 != 0 {
			return false
		}
		if head == nil {
			head = make([]byte, headSize(l))
		}
		if m.read(g, head) != nil {
			return false
		}
		h := parse(head, l)
		size := h.hi - h.lo
		stack := h.lo >= 4096 && h.hi > h.lo && size&(size-1) == 0 && size >= 2048
		switch {
		case h.plain() > goruntime.GDeadExtra, i == 0 && h.id != 1:
			return false
		case !stack && (goruntime.Alive(h.status) || h.lo != 0 || i == 0):
			return false
		}
	}
	last, err := m.word(array + (n-1)*8)
	return err == nil && last > 4096 && m.read(last, head) == nil
}
