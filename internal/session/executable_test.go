package session

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"pgregory.net/rapid"
)

// byDebugELF returns what readELF must return. It uses the standard library's debug/elf.
func byDebugELF(f *elf.File) (e executable) {
	note := func(name string) []byte {
		s := f.Section(name)
		if s == nil {
			return nil
		}
		b, err := s.Data()
		if err != nil || len(b) < 12 {
			return nil
		}
		from := 12 + (uint64(f.ByteOrder.Uint32(b))+3)&^3
		to := from + uint64(f.ByteOrder.Uint32(b[4:]))
		if to > uint64(len(b)) {
			return nil
		}
		return b[from:to]
	}
	if text := f.Section(".text"); text != nil {
		e.textStart, e.textSize = text.Addr, text.Size
	}
	if e.buildID = hex.EncodeToString(note(".note.gnu.build-id")); e.buildID == "" {
		e.buildID = string(note(".note.go.buildid"))
	}
	return e
}

func TestReadExecutable(t *testing.T) {
	var want executable // of a file that is not ELF
	if f, err := elf.Open(testenv.Must(os.Executable())); err == nil {
		defer f.Close()
		want = byDebugELF(f)
	}
	want.path = testenv.Must(os.Executable())
	testenv.Same(t, "executable", readExecutable(), want)
	testenv.Same(t, "it has code and a build ID", want.textSize > 0 && want.buildID != "", want.textSize > 0 || runtime.GOOS == "linux")
}

// makeELF makes an ELF file with the named sections, in that order. The file is for 64 bits if
// wide is true, else for 32 bits.
func makeELF(wide bool, order binary.AppendByteOrder, addr uint64, names []string, content map[string][]byte) []byte {
	class, header, entry := byte(1), 52, 40
	if wide {
		class, header, entry = 2, 64, 64
	}
	word := func(b []byte, v uint64) []byte {
		if wide {
			return order.AppendUint64(b, v)
		}
		return order.AppendUint32(b, uint32(v))
	}
	data := byte(1)
	if order == binary.BigEndian {
		data = 2
	}
	var strings, body, table []byte
	section := func(name string, kind uint32, b []byte) {
		table = order.AppendUint32(table, uint32(len(strings)))
		strings = append(append(strings, name...), 0)
		table = order.AppendUint32(table, kind)
		table = word(table, 0) // flags
		table = word(table, addr)
		table = word(table, uint64(header+len(body)))
		table = word(table, uint64(len(b)))
		table = order.AppendUint32(order.AppendUint32(table, 0), 0)
		table = word(word(table, 1), 0)
		body = append(body, b...)
	}
	section("", 0, nil)
	for _, name := range names {
		kind := uint32(1) // SHT_PROGBITS
		if name[:5] == ".note" {
			kind = 7
		}
		section(name, kind, content[name])
	}
	last := append(bytes.Clone(strings), ".shstrtab\x00"...)
	section(".shstrtab", 3, last)

	b := append([]byte("\x7fELF"), class, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = order.AppendUint16(order.AppendUint16(b, 2), 62)
	b = order.AppendUint32(b, 1)
	b = word(word(word(b, 0), 0), uint64(header+len(body))) // entry, program headers, sections
	b = order.AppendUint32(b, 0)
	for _, v := range []int{header, 0, 0, entry, len(names) + 2, len(names) + 1} {
		b = order.AppendUint16(b, uint16(v))
	}
	return append(append(b, body...), table...)
}

func noteOf(order binary.AppendByteOrder, name string, desc []byte) []byte {
	b := order.AppendUint32(nil, uint32(len(name)))
	b = order.AppendUint32(b, uint32(len(desc)))
	b = order.AppendUint32(b, 4)
	b = append(b, name...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return append(b, desc...)
}

// readELF returns the same as debug/elf for every kind of ELF file.
func TestReadELF(t *testing.T) {
	all := []string{".text", ".note.gnu.build-id", ".note.go.buildid", ".data", ".textual", ".note.gnu.build-ids"}
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SampledFrom([]binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}).Draw(t, "order")
		wide := rapid.Bool().Draw(t, "wide")
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, len(all), rapid.ID).Draw(t, "sections")
		content := map[string][]byte{}
		for _, name := range names {
			content[name] = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, name)
			if name[:5] == ".note" && rapid.IntRange(0, 9).Draw(t, "a note") > 0 {
				content[name] = noteOf(order, rapid.StringN(0, 6, 6).Draw(t, "owner"), content[name])
			}
		}
		b := makeELF(wide, order, uint64(rapid.Uint32().Draw(t, "address")), names, content)
		f := testenv.Must(elf.NewFile(bytes.NewReader(b)))
		testenv.Same(t, names, readELF(bytes.NewReader(b)), byDebugELF(f))
	})
}

// A damaged file never makes readELF panic or allocate much memory.
func FuzzReadELF(f *testing.F) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		sections := []string{".text", ".note.gnu.build-id", ".note.go.buildid"}
		content := map[string][]byte{".text": make([]byte, 16), sections[1]: noteOf(order, "GNU\x00", []byte("0123456789")), sections[2]: noteOf(order, "Go\x00\x00", []byte("a/b/c/d"))}
		f.Add(makeELF(false, order, 0x401000, sections, content))
		f.Add(makeELF(true, order, 0x401000, sections, content))
	}
	f.Add([]byte("MZ"))
	f.Add(withSymbols([][2]uint64{{0x1010, 16}, {0x1000, 64}, {0x1020, 16}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e executable
		testenv.Bounded(t, 2<<20+100*len(b), func() { e = readELF(bytes.NewReader(b)) })
		testenv.Bounded(t, 2<<20+100*len(b), func() { Variables(bytes.NewReader(b), []uint64{0xfff, 0x1008, 0x1018, 0x1028, 0x1030, 0x1040}) })
		testenv.Within(t, "bytes of the build ID", len(e.buildID), 0, 2*len(b))
	})
}

// withSymbols makes an ELF file whose symbol table has these variables. Their names are a, b, c and so on.
func withSymbols(places [][2]uint64) []byte {
	order := binary.LittleEndian
	var table, names []byte
	for i, p := range places {
		table = order.AppendUint32(table, uint32(len(names)))
		table = append(table, dataSymbol, 0, 1, 0)
		table = order.AppendUint64(order.AppendUint64(table, p[0]), p[1])
		names = append(names, 'a'+byte(i), 0)
	}
	b := makeELF(true, order, 0, []string{".symtab", ".strtab"}, map[string][]byte{".symtab": table, ".strtab": names})
	sections := b[order.Uint64(b[40:]):]
	order.PutUint32(sections[64+4:], symbolTable)
	order.PutUint32(sections[64+40:], 2) // the section with the names
	return b
}

// Variables finds the smallest variable around each address.
func TestReadVariables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var places [][2]uint64
		for range rapid.IntRange(0, 20).Draw(t, "variables") {
			places = append(places, [2]uint64{rapid.Uint64Range(0x1000, 0x1100).Draw(t, "start"), rapid.Uint64Range(0, 64).Draw(t, "size")})
		}
		addrs := rapid.SliceOfN(rapid.Uint64Range(0xff0, 0x1150), 1, 20).Draw(t, "addresses")
		got := testenv.Must(Variables(bytes.NewReader(withSymbols(places)), addrs))
		for _, addr := range addrs {
			least, may := ^uint64(0), []Variable{{}} // several can have the same place
			for i, p := range places {
				v := Variable{string(rune('a' + i)), addr - p[0]}
				switch {
				case v.Offset >= p[1] || p[1] > least:
				case p[1] < least:
					least, may = p[1], []Variable{v}
				default:
					may = append(may, v)
				}
			}
			testenv.FailIf(t, !slices.Contains(may, got[addr]), "%#x is in %+v, want one of %+v", addr, got[addr], may)
		}
	})
}
