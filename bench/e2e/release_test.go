package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// A goMod is what go mod edit -json and go work edit -json print.
type goMod struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func edited(t *testing.T, command, file string) (m goMod) {
	t.Helper()
	testenv.OK(t, json.Unmarshal([]byte(run(t, root(t), nil, "go", command, "edit", "-json", file)), &m))
	return m
}

// released is the version of the library that the other modules require.
func released(t *testing.T) string {
	t.Helper()
	for _, r := range edited(t, "mod", "cmd/gotach/go.mod").Require {
		if r.Path == modulePath {
			return r.Version
		}
	}
	t.Fatal("the command does not require the library")
	return ""
}

// The other modules require one version of the library, which the workspace replaces, and replace nothing themselves:
// the go command refuses to install a command whose module does.
func TestReleaseVersions(t *testing.T) {
	version := released(t)
	for _, m := range modules {
		mod := edited(t, "mod", m+"/go.mod")
		testenv.FailIf(t, len(mod.Replace) > 0, "%s/go.mod replaces %v", m, mod.Replace)
		for _, r := range mod.Require {
			testenv.FailIf(t, r.Path == modulePath && r.Version != version, "%s requires the library's version %s, the command %s", m, r.Version, version)
		}
	}
	replaced := edited(t, "work", "go.work").Replace
	testenv.Same(t, "go.work replaces", fmt.Sprint(replaced), fmt.Sprintf("[{{%s %s} {./ }}]", modulePath, version))
	testenv.FailIf(t, !strings.Contains(read(t, "docs/releasing.md"), "`"+version+"`"), "docs/releasing.md does not name the version %s", version)
}

// proxy makes a module proxy of files that has the library and the command. It returns the environment of a go command with a module
// cache of its own, which has only this proxy, the modules that this machine has, and the proxies others.
func proxy(t *testing.T, cache string, others ...string) []string {
	t.Helper()
	dir, version := t.TempDir(), released(t)
	for _, folder := range []string{".", "cmd/gotach"} {
		path := modulePath
		if folder != "." {
			path += "/" + folder
		}
		files := filepath.Join(dir, path, "@v")
		mod := read(t, folder+"/go.mod")
		testenv.OK(t, os.MkdirAll(files, 0o755))
		testenv.OK(t, os.WriteFile(filepath.Join(files, "list"), []byte(version+"\n"), 0o644))
		testenv.OK(t, os.WriteFile(filepath.Join(files, version+".mod"), []byte(mod), 0o644))
		testenv.OK(t, os.WriteFile(filepath.Join(files, version+".info"), fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version), 0o644))
		pack(t, filepath.Join(root(t), folder), filepath.Join(files, version+".zip"), path+"@"+version)
	}
	here := strings.TrimSpace(run(t, root(t), nil, "go", "env", "GOMODCACHE"))
	list := append([]string{"file://" + dir, "file://" + filepath.Join(here, "cache", "download")}, others...)
	return []string{"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -buildvcs=false", "GOSUMDB=off", "GOPROXY=" + strings.Join(list, ","), "GOMODCACHE=" + cache}
}

// pack makes the zip file of a module: all files of a folder that are in no module below it.
func pack(t *testing.T, folder, file, prefix string) {
	t.Helper()
	out := testenv.Closes(t, testenv.Must(os.Create(file)))
	w := zip.NewWriter(out)
	testenv.OK(t, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != folder {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || d.Name() == ".git" {
				return fs.SkipDir
			}
		}
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := w.Create(prefix + "/" + filepath.ToSlash(testenv.Must(filepath.Rel(folder, name))))
		if err == nil {
			_, err = f.Write(b)
		}
		return err
	}))
	testenv.OK(t, w.Close())
}

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
		testenv.FailIf(t, is == strings.Contains(first, unpromised), "package %s is promised: %v; the first line of its comment is %q", folder, is, first)
		if !is {
			others = append(others, own)
			continue
		}
		found++
		fmt.Fprintf(&api, "package %s\n\n%s", name, declarations(t, p))
	}
	testenv.FailIf(t, found != len(promised) || len(others) < 5, "found %d of the packages %v, and beside them %v", found, promised, others)
	for _, m := range regexp.MustCompile(`(?m)^(func|\t[A-Z]\w* ).*\b(`+strings.Join(others, "|")+`)\.[A-Z].*$`).FindAllString(api.String(), -1) {
		if !strings.Contains(m, "=") { // the value of a constant is written out where it is defined
			t.Errorf("a promised declaration has a type that is not: %s", m)
		}
	}
	testenv.Golden(t, golden, api.String(), *update) // -update only if the change keeps what docs/compatibility.md promises
}

// parsePackage reads the package in dir, with the files for all systems.
func parsePackage(t *testing.T, name, dir string) *doc.Package {
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
