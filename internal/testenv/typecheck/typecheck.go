// Typecheck says whether packages compile for another system, in seconds: it compiles nothing, but
// checks the types of the project's code and reads the declarations of what that imports. With
// -test the packages' tests are checked too.
//
//	go run ./internal/testenv/typecheck [-test] darwin/arm64 ./... ./cmd/gotach/...
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const project = "github.com/gotach/profiler"

func main() {
	tests := flag.Bool("test", false, "check the packages' tests too")
	flag.Parse()
	n, err := check(*tests, flag.Arg(0), flag.Args()[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d packages of the project\n", flag.Arg(0), n)
}

// A pkg is a package as go list prints it, with its tests if ImportPath ends in the name of a test
// program.
type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // of paths in the source
	Module          struct{ GoVersion string }
}

// imports finds the packages that one imports among those that are checked.
type imports struct {
	pkg
	checked map[string]*types.Package
}

func (i imports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if other, ok := i.ImportMap[path]; ok {
		path = other
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s imports %s, which go list does not have", i.ImportPath, path)
}

// check checks packages for a system, such as linux/386, and returns how many of them are of the
// project.
func check(tests bool, system string, patterns ...string) (ours int, err error) {
	goos, goarch, _ := strings.Cut(system, "/")
	args := []string{"list", "-deps", fmt.Sprint("-test=", tests), "-json=ImportPath,Dir,GoFiles,ImportMap,Module"}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%v: %w", cmd.Args, err)
	}
	fset, checked, errs := token.NewFileSet(), map[string]*types.Package{}, []error(nil)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; { // go list prints a package after those that it imports
		i := imports{checked: checked}
		if err := d.Decode(&i.pkg); errors.Is(err, io.EOF) {
			return ours, errors.Join(errs...)
		} else if err != nil {
			return ours, err
		}
		if i.ImportPath == "unsafe" || strings.HasSuffix(i.ImportPath, ".test") {
			continue // a test program has only what go test generates
		}
		path, _, _ := strings.Cut(i.ImportPath, " ")
		is := path == project || strings.HasPrefix(path, project+"/")
		var files []*ast.File
		for _, name := range i.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(i.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return ours, err
			}
			files = append(files, f)
		}
		cfg := types.Config{Importer: i, Sizes: types.SizesFor("gc", goarch), IgnoreFuncBodies: !is, Error: func(err error) { errs = append(errs, err) }}
		if v := i.Module.GoVersion; v != "" {
			cfg.GoVersion = "go" + v
		}
		checked[i.ImportPath], _ = cfg.Check(path, fset, files, nil)
		if is {
			ours++
		}
	}
}
