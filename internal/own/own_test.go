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

	"github.com/gotach/profiler/internal/testenv"
)

// createdBy returns the creator of the calling goroutine as runtime.Stack prints it.
func createdBy() string {
	buf := make([]byte, 1<<16)
	_, text, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "\ncreated by ")
	name, _, _ := strings.Cut(text, " in goroutine ")
	return name
}

func TestCreated(t *testing.T) {
	by := make(chan string)
	Ordinary(func() { by <- createdBy() })
	testenv.Same(t, "by Ordinary", Created(<-by), true)
	Go(func() {
		by <- createdBy()
		go func() { by <- createdBy() }()
	})
	testenv.Same(t, "by Go", Created(<-by), true)
	if name := <-by; name == "" || Created(name) {
		t.Errorf("a go statement within Go's function: creator %q, want a name other than Go's", name)
	}
	testenv.Same(t, "the main goroutine", Created(""), false)
}

type hideMe struct{}

func (hideMe) method() string { return caller() }

// caller returns the name of the calling function, as in stacks.
//
//go:noinline
func caller() string {
	pc := make([]uintptr, 1)
	runtime.Callers(2, pc)
	f, _ := runtime.CallersFrames(pc).Next()
	return f.Function
}

func hideThis() string { HideCaller(); return caller() }

func TestHidden(t *testing.T) {
	name := hideMe{}.method()
	Hide(hideMe.method)
	if !Hidden(name) || !Hidden(name+"-fm") {
		t.Errorf("%s is not hidden", name)
	}
	testenv.Same(t, "hidden after HideCaller", Hidden(hideThis()), true)
	if Hidden("") || Hidden(caller()) {
		t.Error("other functions are hidden")
	}
}

// The packages that a profiled program links start all their goroutines with Go.
func TestNoOtherGoStatement(t *testing.T) {
	const root = "../.."
	files, fset := 0, token.NewFileSet()
	for _, room := range []string{".", "auto", "export", "httpprof", "proftest", "internal/frames", "internal/hook", "internal/journal", "internal/own", "internal/rotate", "internal/session", "sampler", "tachyon", "writer"} {
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
			f, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if starts(n) && path != filepath.Join(root, "internal/own/start.go") {
					t.Errorf("%s: goroutine not started by own.Go", fset.Position(n.Pos()))
				}
				return true
			})
			return nil
		})
		testenv.OK(t, err)
	}
	if files < 60 {
		t.Errorf("found only %d files", files)
	}
}

// starts reports whether a node starts a goroutine: a go statement, or a method or function named Go or AfterFunc.
func starts(n ast.Node) bool {
	if s, ok := n.(*ast.SelectorExpr); ok {
		x, _ := s.X.(*ast.Ident)
		return s.Sel.Name == "AfterFunc" || s.Sel.Name == "Go" && (x == nil || x.Name != "own")
	}
	_, ok := n.(*ast.GoStmt)
	return ok
}
