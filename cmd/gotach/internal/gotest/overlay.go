package gotest

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
)

// generatedName is the name of the file that each package under test gets. It exists only in the
// overlay.
const generatedName = "zz_gotach_test.go"

// A package without a TestMain gets this one, which finishes the profile.
const generatedMain = `
func TestMain(m *gotachTesting.M) {
	m.Run()
	gotachStart.Stop()
}
`

// An overlay collects files that replace others in a build.
type overlay struct {
	dir     string // for the contents
	replace map[string]string
	files   int
}

// add adds a file with a content.
func (o *overlay) add(path string, content []byte) error {
	file := filepath.Join(o.dir, fmt.Sprintf("%d_%s", o.files, filepath.Base(path)))
	o.files++
	o.replace[path] = file
	return os.WriteFile(file, content, 0o644)
}

// merge adds the user's own overlay. Relative paths in it are relative to dir.
func (o *overlay) merge(path, dir string) error {
	text, err := os.ReadFile(inDir(dir, path))
	if err != nil {
		return err
	}
	var theirs struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &theirs); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for from, to := range theirs.Replace {
		if to != "" {
			to = inDir(dir, to)
		}
		o.replace[inDir(dir, from)] = to
	}
	return nil
}

// addTo adds the generated file to a package. The profile begins in its init function. The package
// may have declared the names of packages that are imported here, so these get others.
func (o *overlay) addTo(p *listedPackage) error {
	name := p.Name
	if len(p.TestGoFiles) == 0 {
		name += "_test"
	}
	imports, main := "", ""
	if !o.hasMain(p) {
		imports, main = "\tgotachTesting \"testing\"\n\n", generatedMain
	}
	text := fmt.Sprintf("package %s\n\nimport (\n%s\tgotachStart %q\n)\n\nfunc init() { gotachStart.Start(%q) }\n%s", name, imports, startPath, p.ImportPath, main)
	return o.add(filepath.Join(p.Dir, generatedName), []byte(text))
}

// hasMain reports whether test files of a package have a function TestMain.
func (o *overlay) hasMain(p *listedPackage) bool {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		path := filepath.Join(p.Dir, name)
		if theirs := o.replace[path]; theirs != "" {
			path = theirs
		}
		f, _ := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution) // go test says what is wrong in it
		if f == nil {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "TestMain" {
				return true
			}
		}
	}
	return false
}

// write writes the overlay's own file and returns its path.
func (o *overlay) write() (string, error) {
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}

// inDir returns a path that is relative to a directory.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
