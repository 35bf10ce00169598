package profiler_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// TestNoForeignSymbols reads what programs link: no file may reach a symbol of another package by linkname or
// in assembly. The linker of Go 1.27 rejects both for the runtime.
func TestNoForeignSymbols(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-json=Dir,Module,GoFiles,SFiles", ".", "./auto", "./export", "./leaks", "./httpprof/...", "./proftest")
	out := testenv.Must(list.Output())
	assembly := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir             string
			Module          *struct{ Main bool }
			GoFiles, SFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, name := range append(p.GoFiles, p.SFiles...) {
			file := filepath.Join(p.Dir, name)
			text := testenv.Must(os.ReadFile(file))
			for _, bad := range foreignSymbols(string(text), strings.HasSuffix(name, ".s")) {
				t.Errorf("%s: %s", file, bad)
			}
		}
		assembly += len(p.SFiles)
	}
	if assembly < 2 {
		t.Errorf("found %d files of assembly", assembly)
	}
	for text, assembly := range map[string]bool{
		"\n//go:linkname now runtime.nanotime\n":    false,
		"\tCALL runtime·nanotime(SB)\n":             true,
		"\tMOVQ $internal∕cpu·X86(SB), AX\n":        true,
		"\tMOVQ $runtime·nanotime+8(SB), AX // …\n": true,
	} {
		testenv.Same(t, text, len(foreignSymbols(text, assembly)), 1)
	}
}

var (
	linkname     = regexp.MustCompile(`(?m)^//go:linkname .*`)
	foreignOfAsm = regexp.MustCompile(`[\pL\pN_∕/.]+·[\w·]+[^\s,]*\(SB\)`)
)

// foreignSymbols returns the places in a file that name a symbol of another package.
func foreignSymbols(text string, assembly bool) []string {
	if assembly {
		return foreignOfAsm.FindAllString(text, -1)
	}
	return linkname.FindAllString(text, -1)
}
