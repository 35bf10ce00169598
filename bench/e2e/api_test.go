package e2e

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// promised are the packages of the library that docs/compatibility.md makes a promise for.
var promised = []string{".", "auto", "export", "httpprof", "httpprof/ui", "leaks", "proftest"}

// testdata/api.txt has all exported declarations of the promised packages. With -update the test writes it. The other packages
// that a program can import say first that nothing is promised, and no promised function has a type of theirs.
func TestAPI(t *testing.T) {
	const module, golden, unpromised = "github.com/gotach/profiler", "testdata/api.txt", "not promised (v0)"
	var api bytes.Buffer
	var others []string // names of packages without a promise
	found := 0
	for line := range strings.Lines(run(t, root(t), nil, "go", "list", "-f", "{{.ImportPath}} {{.Name}}", "./...")) {
		name, own, _ := strings.Cut(strings.TrimSpace(line), " ")
		folder := strings.TrimPrefix(strings.Replace(name, module, ".", 1), "./")
		if strings.Contains("/"+folder+"/", "/internal/") || own == "main" {
			others = append(others, own)
			continue
		}
		p := parsePackage(t, name, filepath.Join(root(t), folder))
		first, _, _ := strings.Cut(p.Doc, "\n")
		is := slices.Contains(promised, folder)
		if is == strings.Contains(first, unpromised) {
			t.Errorf("package %s is promised: %v; the first line of its comment is %q", folder, is, first)
		}
		if !is {
			others = append(others, own)
			continue
		}
		found++
		fmt.Fprintf(&api, "package %s\n\n%s", name, declarations(t, p))
	}
	if found != len(promised) || len(others) < 5 {
		t.Errorf("found %d of the packages %v, and beside them %v", found, promised, others)
	}
	for _, m := range regexp.MustCompile(`(?m)^(func|\t[A-Z]\w* ).*\b(`+strings.Join(others, "|")+`)\.[A-Z].*$`).FindAllString(api.String(), -1) {
		if !strings.Contains(m, "=") { // the value of a constant is written out where it is defined
			t.Errorf("a promised declaration has a type that is not: %s", m)
		}
	}
	if *update {
		testenv.OK(t, os.WriteFile(golden, api.Bytes(), 0o644))
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != api.String() {
		t.Errorf("the API is not that of %s (%v). If the change keeps what docs/compatibility.md promises, run: go test ./e2e -run TestAPI -update\n%s", golden, err, api.String())
	}
}

// parsePackage reads the package in dir, with the files for all systems.
func parsePackage(t *testing.T, name, dir string) *doc.Package {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	list, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, file := range list {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f := testenv.Must(parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution))
		files = append(files, f)
	}
	return testenv.Must(doc.NewFromFiles(set, files, name))
}

// declarations returns the exported declarations of a package, without comments.
func declarations(t *testing.T, p *doc.Package) string {
	t.Helper()
	var b strings.Builder
	style := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8} // gofmt's
	show := func(d ast.Node) {
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				n.Incomplete = false // no remark about fields that are not exported
			case *ast.FuncDecl:
				n.Body = nil
			case *ast.GenDecl:
				n.Doc = nil
			case *ast.CommentGroup:
				n.List = nil
			}
			return true
		})
		testenv.OK(t, style.Fprint(&b, token.NewFileSet(), d))
		b.WriteString("\n\n")
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			show(v.Decl)
		}
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			show(f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		show(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
	return b.String()
}
