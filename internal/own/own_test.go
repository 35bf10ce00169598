package own

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// createdBy returns the creator of the calling goroutine as runtime.Stack prints it.
func createdBy() string {
	buf := make([]byte, 1<<16)
	_, text, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "\ncreated by ")
	name, _, _ := strings.Cut(text, "\n")
	name, _, _ = strings.Cut(name, " in goroutine ")
	return name
}

func TestCreated(t *testing.T) {
	by := make(chan string)
	Go(func() {
		by <- createdBy()
		go func() { by <- createdBy() }()
	})
	if name := <-by; !Created(name) {
		t.Errorf("what Go started has the creator %q, not %q", name, creator)
	}
	if name := <-by; name == "" || Created(name) {
		t.Errorf("what is started by a function given to Go has the creator %q", name)
	}
	if Created("") {
		t.Error("the main goroutine is the profiler's")
	}
}

// The packages that a profiled program links start all of their goroutines with Go.
func TestNoOtherGoStatement(t *testing.T) {
	const root = "../.."
	files := 0
	for _, room := range []string{".", "auto", "export", "httpprof", "proftest", "internal/frames", "internal/hook", "internal/journal", "internal/own", "internal/rotate", "sampler", "tachyon", "writer"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && (room == "." && path != root || e.Name() == "testdata" || e.Name() == "gen"):
				return fs.SkipDir
			case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			files++
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if starts(n) && path != filepath.Join(root, "internal/own/own.go") {
					t.Errorf("%s: a goroutine that own.Go does not start", fset.Position(n.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 60 {
		t.Errorf("only %d files were found", files)
	}
}

// starts reports whether a node starts a goroutine: a go statement, or a call of
// WaitGroup.Go or time.AfterFunc by their names.
func starts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.SelectorExpr:
		x, _ := n.X.(*ast.Ident)
		return n.Sel.Name == "AfterFunc" || n.Sel.Name == "Go" && (x == nil || x.Name != "own")
	}
	return false
}
