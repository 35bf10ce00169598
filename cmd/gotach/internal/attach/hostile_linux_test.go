//go:build amd64 || arm64

package attach

import (
	"bytes"
	"debug/elf"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
)

// A table of functions that says that it has more functions than bytes is damaged.
func TestTooManyFunctions(t *testing.T) {
	for _, count := range []uint64{0, 2, 1 << 60, 1 << 61, 1 << 63, math.MaxUint64} {
		d := append([]byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}, make([]byte, 80)...)
		for _, at := range []int{32, 40, 48, 56, 64} {
			le.PutUint64(d[at:], 72)
		}
		le.PutUint64(d[8:], count)
		if err := new(module).init(d); err == nil {
			t.Errorf("%d functions are taken", count)
		}
	}
}

// A name has no more bytes than anybody gives one, and tables have no more than fit into memory.
func TestBoundedTables(t *testing.T) {
	if n := len(text(append(bytes.Repeat([]byte("x"), maxText+9), 0), 0)); n > maxText {
		t.Errorf("a name of %d bytes", n)
	}
	l := goruntime.Layouts["go1.26"]
	m := &memory{from: func(b []byte, _ []unix.RemoteIovec) (int, error) {
		le.PutUint64(b[l.ModPCLNTable+8:], maxTables+1)
		return len(b), nil
	}}
	testenv.Fails(t, "large tables", (&functions{mem: m, layout: l}).follow(1), "its tables of functions have 536870913 bytes")
}

// The list of goroutines of a process that lies gets shorter, or has addresses at the end of memory.
func TestHostileRoster(t *testing.T) {
	const list, array = 0x1000, 0x2000
	var gs []uint64
	p := &Process{program: &program{allgs: list}}
	p.from = func(b []byte, from []unix.RemoteIovec) (int, error) {
		var all []byte
		switch from[0].Base {
		case list:
			for _, v := range []uint64{array, uint64(len(gs)), uint64(len(gs))} {
				all = le.AppendUint64(all, v)
			}
		case array:
			for _, g := range gs {
				all = le.AppendUint64(all, g)
			}
		default:
			return 0, errors.New("elsewhere")
		}
		return copy(b, all), nil
	}
	known := []uint64{0x10000, 0x20000, 0x30000}
	for _, x := range []struct{ gs, want []uint64 }{
		{known, known}, {known[:1], known}, {nil, known}, {append(slices.Clone(known), math.MaxUint64-7), known}, {append(slices.Clone(known), 0x40000), append(slices.Clone(known), 0x40000)},
	} {
		gs = x.gs
		_, err := p.refresh()
		testenv.OK(t, err)
		if !slices.Equal(p.roster.gs, x.want) {
			t.Errorf("%#x: the roster is %#x", x.gs, p.roster.gs)
		}
	}
}

// Goroutines that all have the same stack have no more calls than may be kept, nor labels.
func TestManyCalls(t *testing.T) {
	for most, ok := range map[int]bool{1: false, 3: false, 2 + callsOfLabel: true} {
		s := newScripted()
		s.most = most
		list, _, err := s.Goroutines()
		if ok != (err == nil) || ok != (len(list) == 1) {
			t.Errorf("at most %d: %d goroutines, %v", most, len(list), err)
		}
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
		testenv.Same(t, tt, (&notes{files: append(b, tt.names...)}).fileAt(tt.addr), tt.want)
	}
	testenv.Same(t, "a list without a number", (&notes{files: make([]byte, 15)}).fileAt(0), "")
}

// A core whose parts overlap would have any amount of memory.
func TestOverlappingCore(t *testing.T) {
	core := func(parts int) string {
		b := make([]byte, 64, 64+56*parts)
		copy(b, "\x7fELF\x02\x01\x01")
		le.PutUint16(b[16:], uint16(elf.ET_CORE))
		le.PutUint16(b[18:], uint16(elf.EM_X86_64))
		le.PutUint32(b[20:], 1)
		le.PutUint64(b[32:], 64)
		le.PutUint16(b[52:], 64)
		le.PutUint16(b[54:], 56)
		le.PutUint16(b[56:], uint16(parts))
		for i := range parts {
			p := make([]byte, 56)
			le.PutUint32(p, uint32(elf.PT_LOAD))
			le.PutUint64(p[16:], uint64(i)<<12)
			le.PutUint64(p[32:], 64)
			b = append(b, p...)
		}
		path := filepath.Join(t.TempDir(), "core")
		testenv.OK(t, os.WriteFile(path, b, 0o600))
		return path
	}
	_, err := OpenCore(core(1), os.Args[0])
	testenv.Fails(t, "one part", err, "it is of another build")
	_, err = OpenCore(core(100), os.Args[0])
	testenv.Fails(t, "overlapping parts", err, "overlap")
}
