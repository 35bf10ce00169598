package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecture = "docs/architecture.md"

// The table of rooms in docs/architecture.md is that of TestRooms. With -update the test writes it.
func TestArchitectureRooms(t *testing.T) {
	names := func(list string) string {
		if list == "" {
			return "–"
		}
		return "`" + strings.Join(strings.Fields(list), "` `") + "`"
	}
	var table strings.Builder
	table.WriteString("| room | what it is | may import of the module | and of others |\n|---|---|---|---|\n")
	for _, r := range rooms {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r.folder, r.is, names(r.imports), names(r.foreign))
	}
	marked(t, architecture, "rooms", table.String(), "ArchitectureRooms")
}

// Everything that docs/architecture.md and CONTRIBUTING.md name exists: files, functions, tests, switches, steps of .ci/run,
// and the packages and tests of their go test commands. The pages name all packages that import unsafe.
func TestArchitectureNames(t *testing.T) {
	ci, err := os.ReadFile(filepath.Join(root(t), ".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	page, code := read(t, architecture)+read(t, "CONTRIBUTING.md"), readCode(t)
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "```") && strings.Count(line, "`")%2 != 0 { // names after it would not be found
			t.Errorf("%s: an odd number of backticks: %s", architecture, line)
		}
	}
	var files, names, tests int
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page, -1) {
		name := m[1]
		switch {
		case regexp.MustCompile(`^\w+(\.\w+){1,2}$`).MatchString(name) && !strings.HasSuffix(name, ".go"):
			names++
			if pkg, _, _ := strings.Cut(name, "."); pkg != "runtime" && !code.declared[name] {
				t.Errorf("%s names %s, which is not declared", architecture, name)
			}
		case regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`).MatchString(name):
			tests++
			if name != "TestMain" && !code.tests[name] {
				t.Errorf("%s names %s, and there is no such test", architecture, name)
			}
		case strings.HasPrefix(name, "GOTACH_"):
			name, _, _ = strings.Cut(name, "=")
			if !strings.Contains(code.text, name) {
				t.Errorf("%s names %s, which no code has", architecture, name)
			}
		case strings.HasPrefix(name, ".ci/run "):
			for step := range strings.FieldsSeq(strings.TrimPrefix(name, ".ci/run ")) {
				if !strings.Contains(string(ci), "\n"+step+"() {") {
					t.Errorf("%s names step %s, which .ci/run does not have", architecture, step)
				}
			}
		case name == "testing/synctest": // of the standard library
		case !strings.ContainsAny(name, " *<%") && strings.ContainsAny(name, "/.") && (strings.HasPrefix(name, ".ci/") || !strings.Contains(strings.Split(name, "/")[0], ".") || path.Ext(name) == ".go" || path.Ext(name) == ".md"):
			files++
			if _, err := os.Stat(filepath.Join(root(t), strings.TrimSuffix(name, "/..."))); err != nil {
				t.Errorf("%s names a file: %v", architecture, err)
			}
		}
	}
	if files < 30 || names < 30 || tests < 10 {
		t.Errorf("found only %d files, %d names and %d tests", files, names, tests)
	}
	for _, m := range regexp.MustCompile(`(?m)^.*\bgo test .*$`).FindAllString(page, -1) {
		code.checkCommand(t, m)
	}
	for _, dir := range code.unsafe {
		if !strings.Contains(page, "`"+dir+"`") {
			t.Errorf("%s imports unsafe, and %s does not say why", dir, architecture)
		}
	}
}

// code has the names in the module's Go files, including those for other systems.
type code struct {
	declared map[string]bool     // pkg.Func, pkg.Type, pkg.Type.Method
	tests    map[string]bool     // all tests
	in       map[string][]string // tests by directory
	unsafe   []string            // directories whose code imports unsafe
	text     string              // text of all files, including .ci/run
}

func readCode(t *testing.T) *code {
	t.Helper()
	c := &code{declared: map[string]bool{}, tests: map[string]bool{}, in: map[string][]string{}}
	var text strings.Builder
	dir := os.DirFS(root(t))
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".go" && name != ".ci/run" {
			return nil
		}
		b, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		if path.Base(name) != "architecture_test.go" {
			text.Write(b)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		return c.add(name, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	c.text = text.String()
	return c
}

// add adds one file.
func (c *code) add(name string, b []byte) error {
	f, err := parser.ParseFile(token.NewFileSet(), name, b, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pkg, folder := f.Name.Name, path.Dir(name)
	test := strings.HasSuffix(name, "_test.go")
	for _, i := range f.Imports {
		if i.Path.Value == `"unsafe"` && !test && !slices.Contains(c.unsafe, folder) {
			c.unsafe = append(c.unsafe, folder)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if test && d.Recv == nil {
				c.tests[d.Name.Name] = true
				c.in[folder] = append(c.in[folder], d.Name.Name)
			}
			if !test {
				c.declared[pkg+"."+receiver(d)+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					c.declared[pkg+"."+s.Name.Name] = true
					if i, ok := s.Type.(*ast.InterfaceType); ok {
						for _, m := range i.Methods.List {
							for _, n := range m.Names {
								c.declared[pkg+"."+s.Name.Name+"."+n.Name] = true
							}
						}
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						c.declared[pkg+"."+n.Name] = true
					}
				}
			}
		}
	}
	return nil
}

// receiver returns the type of a method and a dot, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	if i, ok := typ.(*ast.Ident); ok {
		return i.Name + "."
	}
	return ""
}

// checkCommand checks that the packages of a go test command exist, and that its -run, -bench and -fuzz
// match tests.
func (c *code) checkCommand(t *testing.T, command string) {
	t.Helper()
	_, args, _ := strings.Cut(command, "go test ")
	args, _, _ = strings.Cut(args, "#")
	args, _, _ = strings.Cut(args, "`")
	var dirs, patterns []string
	words := strings.Fields(args)
	for i, w := range words {
		w = strings.TrimSuffix(w, ")")
		switch {
		case strings.HasPrefix(w, "./") && !strings.HasSuffix(w, "..."):
			dirs = append(dirs, path.Clean(w))
		case (w == "-run" || w == "-bench" || w == "-fuzz") && i+1 < len(words) && words[i+1] != "-":
			patterns = append(patterns, strings.Trim(strings.Split(words[i+1], "/")[0], "'"))
		}
	}
	for _, d := range dirs {
		if len(c.in[d]) == 0 {
			t.Errorf("%q: no tests in %s", command, d)
		}
	}
	for _, p := range patterns {
		for one := range strings.SplitSeq(p, "|") {
			re, err := regexp.Compile(one)
			if err != nil {
				t.Errorf("%q: %v", command, err)
				continue
			}
			if !slices.ContainsFunc(dirs, func(d string) bool { return slices.ContainsFunc(c.in[d], re.MatchString) }) {
				t.Errorf("%q: no test matches %s", command, one)
			}
		}
	}
}
