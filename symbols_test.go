package profiler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// TestLinkedSource reads what programs link. No file may reach a symbol of another package by linkname or
// in assembly: the linker of Go 1.27 rejects both for the runtime. Goroutines begin with own.Go, but for those of packages that read profiles.
func TestLinkedSource(t *testing.T) {
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
			for _, bad := range append(foreignSymbols(string(text), strings.HasSuffix(name, ".s")), goStatements(file)...) {
				t.Errorf("%s: %s", file, bad)
			}
		}
		assembly += len(p.SFiles)
	}
	testenv.FailIf(t, assembly < 2, "found %d files of assembly", assembly)
	for text, assembly := range map[string]bool{
		"\n//go:linkname now runtime.nanotime\n":    false,
		"\tCALL runtime·nanotime(SB)\n":             true,
		"\tMOVQ $internal∕cpu·X86(SB), AX\n":        true,
		"\tMOVQ $runtime·nanotime+8(SB), AX // …\n": true,
	} {
		testenv.Same(t, text, len(foreignSymbols(text, assembly)), 1)
	}
	testenv.Same(t, "a goroutine of this package's tests is found", len(goStatements("session_test.go")) > 0, true)
}

var othersGoroutines = regexp.MustCompile(`\.s$|/internal/(own/(start|turn).go|(stream|reader|formats|page)/.*)$`)

// goStatements returns the places in a file that start a goroutine: a go statement, or a method or function named Go or AfterFunc.
func goStatements(file string) (places []string) {
	if othersGoroutines.MatchString(file) {
		return nil
	}
	set := token.NewFileSet()
	ast.Inspect(testenv.Must(parser.ParseFile(set, file, nil, 0)), func(n ast.Node) bool {
		_, starts := n.(*ast.GoStmt)
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, _ := s.X.(*ast.Ident)
			starts = s.Sel.Name == "AfterFunc" || s.Sel.Name == "Go" && (x == nil || x.Name != "own")
		}
		if starts {
			places = append(places, fmt.Sprint("a goroutine not started by own.Go: ", set.Position(n.Pos())))
		}
		return true
	})
	return places
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
