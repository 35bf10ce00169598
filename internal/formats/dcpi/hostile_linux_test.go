package dcpi

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// An executable whose sections would take much more memory than it has bytes is not read: one that is compressed, or many of the same bytes.
func TestInflated(t *testing.T) {
	exe := testenv.Must(os.ReadFile("/proc/self/exe"))
	e := testenv.Must(elf.NewFile(bytes.NewReader(exe)))
	order := binary.LittleEndian
	for what, change := range map[string]func(b []byte, header func(i int) []byte){
		"a compressed section": func(b []byte, header func(i int) []byte) {
			for i, s := range e.Sections {
				if s.Name == ".note.go.buildid" { // Elf64_Chdr: kind, 0, size, alignment
					order.PutUint64(header(i)[8:], uint64(elf.SHF_COMPRESSED))
					order.PutUint64(b[s.Offset:], uint64(elf.COMPRESS_ZLIB))
					order.PutUint64(b[s.Offset+8:], 1<<40)
				}
			}
		},
		"many of the same bytes": func(b []byte, header func(i int) []byte) {
			for i := 1; i < len(e.Sections); i++ {
				if e.Sections[i].Type != elf.SHT_NOBITS && i != int(order.Uint16(b[62:])) {
					order.PutUint64(header(i)[24:], 0)
					order.PutUint64(header(i)[32:], uint64(len(b))*2)
				}
			}
		},
	} {
		b := bytes.Clone(exe)
		change(b, func(i int) []byte { return b[order.Uint64(b[40:])+64*uint64(i):][:64] })
		path := filepath.Join(t.TempDir(), "exe")
		testenv.OK(t, os.WriteFile(path, b, 0o600))
		if _, err := OpenImage(path); err == nil || !strings.Contains(err.Error(), "much larger") {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := StartLines(path, ""); err == nil || !strings.Contains(err.Error(), "much larger") {
			t.Errorf("%s: start lines: %v", what, err)
		}
	}
}
