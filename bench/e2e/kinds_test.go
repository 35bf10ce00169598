package e2e

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// A function's name says what it is, and its file's build tag says when it runs: TestPeer with peers,
// TestMeasure with measure, other tests with neither. See docs/architecture.md.
func TestKinds(t *testing.T) {
	found := map[string]int{}
	err := filepath.WalkDir(root(t), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		tag := tagOf(tree)
		found[tag]++
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
				continue
			}
			want := ""
			switch name := f.Name.Name; {
			case strings.HasPrefix(name, "TestPeer"):
				want = "peers"
			case strings.HasPrefix(name, "TestMeasure"):
				want = "measure"
			}
			if tag != want {
				t.Errorf("%s: %s is in a file with the build tag %q, want %q", file, f.Name.Name, tag, want)
			}
		}
		return nil
	})
	testenv.OK(t, err)
	if found[""] == 0 || found["peers"] == 0 || found["measure"] == 0 {
		t.Errorf("files by build tag: %v", found)
	}
}

// tagOf returns peers or measure if a file is built with this tag only, else "".
func tagOf(tree *ast.File) (tag string) {
	for _, group := range tree.Comments {
		for _, c := range group.List {
			if c.Pos() > tree.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err != nil {
				continue
			}
			for _, tag := range []string{"peers", "measure"} {
				with := func(race bool) bool {
					return expr.Eval(func(t string) bool { return t != tag && (t != "race" || race) })
				}
				if !with(true) && !with(false) {
					return tag
				}
			}
		}
	}
	return ""
}
