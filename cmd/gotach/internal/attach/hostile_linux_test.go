//go:build amd64 || arm64

package attach

import (
	"bytes"
	"debug/elf"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

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
		f := functions{data: d}
		if err := f.init(); err == nil {
			t.Errorf("%d functions are taken", count)
		}
	}
}

// A name has no more bytes than anybody gives one, and a section that a program needs in memory is not compressed.
func TestBoundedTables(t *testing.T) {
	if n := len(text(append(bytes.Repeat([]byte("x"), maxText+9), 0), 0)); n > maxText {
		t.Errorf("a name of %d bytes", n)
	}
	file := strings.NewReader(strings.Repeat("x", 99))
	for _, h := range []elf.SectionHeader{{Size: 99}, {Size: 9, Flags: elf.SHF_COMPRESSED}} {
		if _, err := sectionOf(&elf.Section{SectionHeader: h, ReaderAt: file}, 98); err == nil {
			t.Errorf("%+v is read", h)
		}
	}
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
