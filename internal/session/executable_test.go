package session

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"os"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/testenv"
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
	got := readExecutable()
	if path, err := os.Executable(); err != nil || got.path != path {
		t.Errorf("the path is %q, want %q (%v)", got.path, path, err)
	}
	f, err := elf.Open(got.path)
	if err != nil {
		if runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		if got.buildID != "" || got.textSize != 0 {
			t.Errorf("a file that is not ELF gives %+v", got)
		}
		return
	}
	defer f.Close()
	want := byDebugELF(f)
	want.path = got.path
	if got != want || got.textSize == 0 || got.buildID == "" {
		t.Errorf("got %+v, want %+v", got, want)
	}
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
		if got, want := readELF(bytes.NewReader(b)), byDebugELF(f); got != want {
			t.Fatalf("%v, %d bytes: got %+v, want %+v", names, len(b), got, want)
		}
	})
}

// A damaged file never makes readELF panic or allocate much memory.
func FuzzReadELF(f *testing.F) {
	for _, wide := range []bool{false, true} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			b := makeELF(wide, order, 0x401000, []string{".text", ".note.gnu.build-id", ".note.go.buildid"}, map[string][]byte{
				".text":              make([]byte, 16),
				".note.gnu.build-id": noteOf(order, "GNU\x00", []byte("0123456789")),
				".note.go.buildid":   noteOf(order, "Go\x00\x00", []byte("a/b/c/d")),
			})
			if e := readELF(bytes.NewReader(b)); e.textStart != 0x401000 || e.textSize != 16 || e.buildID != "30313233343536373839" {
				f.Fatalf("seed: %+v", e)
			}
			f.Add(b)
		}
	}
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e executable
		if n := testenv.Allocated(func() { e = readELF(bytes.NewReader(b)) }); n > uint64(2<<20+100*len(b)) {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
		if len(e.buildID) > 2*len(b) {
			t.Errorf("a build ID of %d bytes in a file of %d", len(e.buildID), len(b))
		}
	})
}
