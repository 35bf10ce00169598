//go:build linux && (amd64 || arm64)

package attach

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// A core is the memory that a process had when it ended. The kernel leaves out what is the same in
// the executable.
type core struct {
	parts []*elf.Prog // with their addresses, the core's first
	cut   error       // it is not whole; nil: it is
}

// OpenCore finds the goroutines of a core file, whose process ran an executable. exe may be "":
// then it is the file that the core names. Both files stay open.
func OpenCore(path, exe string) (*Process, error) {
	file, fi, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	p, err := openCore(file, fi.Size(), exe)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func openCore(file *os.File, size int64, exe string) (p *Process, err error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	if f.Type != elf.ET_CORE {
		return nil, errors.New("it is no core file")
	}
	p = &Process{threads: map[uint64]regs{}}
	auxv, list, err := p.notes(f)
	if err != nil {
		return nil, err
	}
	entry := entryOf(auxv)
	if exe = cmp.Or(exe, fileAt(list, entry)); exe == "" {
		return nil, errors.New("it does not say which executable it is of; give its path after it")
	}
	program, _, err := files.Open(exe)
	if err != nil {
		return nil, fmt.Errorf("its executable: %w; give its path after it", err)
	}
	defer func() {
		if err != nil {
			program.Close()
		}
	}()
	c := &core{}
	if err := c.add(f, 0); err != nil {
		return nil, err
	}
	for _, part := range c.parts {
		if end := part.Off + part.Filesz; end > uint64(size) {
			c.cut = fmt.Errorf("it is cut: it ends at offset %d, and the memory at %#x goes on to offset %d", size, part.Vaddr, end)
		}
	}
	p.Name, p.from = filepath.Base(exe), c.read
	if f, err := elf.NewFile(program); err == nil {
		if err := c.add(f, entry-f.Entry); err != nil {
			return nil, fmt.Errorf("%s: %w", exe, err)
		}
	}
	if p.program, err = p.load(program, exe, 0, entry); errors.Is(err, errEarly) || errors.Is(err, errLacks) {
		err = cmp.Or(c.cut, fmt.Errorf("it is of another build than %s, or lacks memory", exe))
	}
	return p, err
}

// Instant writes what the goroutines of a core did as a profile of one instant, at a time. Each of
// them has one sample, of 1 µs, which counts it.
func (p *Process) Instant(path string, at time.Time) error {
	const tick = time.Microsecond
	r := &recorder{Process: p, o: Options{Interval: tick}, base: uint64(at.UnixMicro()), now: tick, all: true, byG: map[uint64]*known{}}
	err := r.create(path)
	if err != nil {
		return err
	}
	for range 2 { // the first time, some get numbers of objects that others are found to wait for later
		r.batch, r.Counts = r.batch[:0], tachyon.Counts{}
		err = cmp.Or(err, r.tick(true))
		r.now += tick
	}
	return r.close(cmp.Or(err, r.flush()))
}

// add adds the parts of a file. They do not overlap in it: otherwise a small file could say that it
// has any amount of memory.
func (c *core) add(f *elf.File, bias uint64) error {
	from := len(c.parts)
	for _, part := range f.Progs {
		if part.Type == elf.PT_LOAD && part.Filesz > 0 {
			part.Vaddr += bias
			c.parts = append(c.parts, part)
		}
	}
	parts := slices.SortedFunc(slices.Values(c.parts[from:]), func(a, b *elf.Prog) int { return cmp.Compare(a.Off, b.Off) })
	for i, part := range parts {
		if i > 0 && part.Off-parts[i-1].Off < parts[i-1].Filesz {
			return errors.New("parts of its memory overlap")
		}
	}
	return nil
}

// errLacks says that an address is in no part of a core or its executable.
var errLacks = errors.New("it has not the memory")

// read reads the pieces in their order.
func (c *core) read(b []byte, from []unix.RemoteIovec) (n int, err error) {
	for _, v := range from {
		for at, end := uint64(v.Base), n+v.Len; n < end; {
			k := c.readAt(b[n:end], at)
			if k == 0 {
				return n, cmp.Or(c.cut, fmt.Errorf("%w at %#x", errLacks, at))
			}
			at, n = at+uint64(k), n+k
		}
	}
	return n, nil
}

// readAt reads at most to the end of one part, and returns how much.
func (c *core) readAt(b []byte, addr uint64) int {
	for _, part := range c.parts {
		if off := addr - part.Vaddr; off < part.Filesz {
			k, _ := part.ReadAt(b[:min(uint64(len(b)), part.Filesz-off)], int64(off))
			return k
		}
	}
	return 0
}

// maxNotes bounds what is read of notes. A thread has about 1 KB.
const maxNotes = 64 << 20

// notes reads the notes of a core (elf(5), core(5)): the id of its process, registers of threads,
// what the kernel told it at its start, and which files it had mapped.
func (p *Process) notes(f *elf.File) (auxv, list []byte, err error) {
	const prStatus, prInfo, auxiliary, fileList, tidAt, pidAt = 1, 3, 6, 0x46494c45, 32, 24
	for _, part := range f.Progs {
		if part.Type != elf.PT_NOTE {
			continue
		}
		if part.Filesz > maxNotes {
			return nil, nil, fmt.Errorf("it has %d bytes of notes", part.Filesz)
		}
		b := make([]byte, part.Filesz)
		if n, err := part.ReadAt(b, 0); n < len(b) {
			return nil, nil, fmt.Errorf("its notes are cut at offset %d: %w", part.Off+uint64(n), err)
		}
		for len(b) >= 12 {
			name, size, kind := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
			from := 12 + (name+3)&^3
			if from+size > uint64(len(b)) {
				return nil, nil, fmt.Errorf("its notes are cut at offset %d", part.Off+part.Filesz-uint64(len(b)))
			}
			note := b[from : from+size]
			b = b[min(from+(size+3)&^3, uint64(len(b))):]
			switch {
			case kind == prStatus && len(note) >= coreRegisters+coreSize*8:
				reg := func(i int) uint64 { return le.Uint64(note[coreRegisters+i*8:]) }
				p.threads[uint64(le.Uint32(note[tidAt:]))] = regs{sp: reg(coreSP), pc: reg(corePC), lr: reg(coreLR)}
			case kind == prInfo && len(note) >= pidAt+4:
				p.PID = int(le.Uint32(note[pidAt:]))
			case kind == auxiliary:
				auxv = note
			case kind == fileList:
				list = note
			}
		}
	}
	return auxv, list, nil
}

// coreRegisters is where the registers of a thread are in a note: after a struct elf_prstatus'
// first fields.
const coreRegisters = 112

// fileAt returns the file that an address is mapped from, given the list of a core, "" if it is not
// known.
func fileAt(list []byte, addr uint64) string {
	if len(list) < 16 || le.Uint64(list) > uint64(len(list)-16)/24 {
		return ""
	}
	names := list[16+le.Uint64(list)*24:]
	for b := list[16 : len(list)-len(names)]; len(b) > 0; b = b[24:] {
		name, rest, _ := bytes.Cut(names, []byte{0})
		if addr >= le.Uint64(b) && addr < le.Uint64(b[8:]) {
			return string(name)
		}
		names = rest
	}
	return ""
}
