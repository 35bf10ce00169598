package profiler

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/testenv"
)

// readVariables finds the same variables as debug/elf, for addresses in and between the variables of
// a Go program.
func TestReadVariables(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", bin, "./internal/e2e/testdata/objects")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	symbols = slices.DeleteFunc(symbols, func(s elf.Symbol) bool { return elf.ST_TYPE(s.Info) != elf.STT_OBJECT || s.Size == 0 })
	f, err := os.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := 0
	rapid.Check(t, func(t *rapid.T) {
		var addrs []uint64
		for range rapid.IntRange(1, 20).Draw(t, "addresses") {
			s := rapid.SampledFrom(symbols).Draw(t, "symbol")
			addrs = append(addrs, s.Value+rapid.Uint64Range(0, 2*s.Size).Draw(t, "offset"))
		}
		got, err := readVariables(f, addrs)
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range addrs {
			least := ^uint64(0)
			for _, s := range symbols {
				if addr-s.Value < s.Size {
					least = min(least, s.Size)
				}
			}
			ok := least == ^uint64(0) && got[addr] == variable{}
			for _, s := range symbols { // several can have the same place
				ok = ok || s.Size == least && got[addr] == variable{s.Name, addr - s.Value}
			}
			if got[addr].name != "" {
				names++
			}
			if !ok {
				t.Errorf("%#x is in %+v", addr, got[addr])
			}
		}
	})
	if names == 0 {
		t.Error("no address has a name")
	}
}

// FuzzReadVariables reads damaged symbol tables: no panic, and little memory.
func FuzzReadVariables(f *testing.F) {
	order := binary.LittleEndian
	var table []byte
	for _, s := range []struct{ name, start, size uint64 }{{2, 0x1010, 16}, {0, 0x1000, 64}, {4, 0x1020, 16}} {
		table = order.AppendUint32(table, uint32(s.name))
		table = append(table, dataSymbol, 0, 1, 0)
		table = order.AppendUint64(order.AppendUint64(table, s.start), s.size)
	}
	b := makeELF(true, order, 0, []string{".symtab", ".strtab"}, map[string][]byte{".symtab": table, ".strtab": []byte("a\x00b\x00c\x00")})
	sections := b[order.Uint64(b[40:]):]
	order.PutUint32(sections[64+4:], symbolTable)
	order.PutUint32(sections[64+40:], 2) // the section with the names
	addrs := []uint64{0xfff, 0x1008, 0x1018, 0x1028, 0x1030, 0x1040}
	got, err := readVariables(bytes.NewReader(b), addrs)
	want := map[uint64]variable{0xfff: {}, 0x1008: {"a", 8}, 0x1018: {"b", 8}, 0x1028: {"c", 8}, 0x1030: {"a", 48}, 0x1040: {}}
	if err != nil || !maps.Equal(got, want) {
		f.Fatalf("the seed gives %v, %v, want %v", got, err, want)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := testenv.Allocated(func() { readVariables(bytes.NewReader(b), addrs) }); n > uint64(2<<20+100*len(b)) {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
	})
}
