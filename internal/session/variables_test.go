package session

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/testenv"
)

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
			if !slices.Contains(may, got[addr]) {
				t.Errorf("%#x is in %+v, want one of %+v", addr, got[addr], may)
			}
		}
	})
}

// FuzzReadVariables reads damaged symbol tables: no panic, and little memory.
func FuzzReadVariables(f *testing.F) {
	b := withSymbols([][2]uint64{{0x1010, 16}, {0x1000, 64}, {0x1020, 16}})
	addrs := []uint64{0xfff, 0x1008, 0x1018, 0x1028, 0x1030, 0x1040}
	got, err := Variables(bytes.NewReader(b), addrs)
	want := map[uint64]Variable{0xfff: {}, 0x1008: {"b", 8}, 0x1018: {"a", 8}, 0x1028: {"c", 8}, 0x1030: {"b", 48}, 0x1040: {}}
	if err != nil || !maps.Equal(got, want) {
		f.Fatalf("the seed gives %v, %v, want %v", got, err, want)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := testenv.Allocated(func() { Variables(bytes.NewReader(b), addrs) }); n > uint64(2<<20+100*len(b)) {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
	})
}
