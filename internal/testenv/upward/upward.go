// Command upward prints the references between the files of packages that run up: the definition is
// in a file above its user's, in the order in which the package comment names them. A comment with
// a section Files names them there. Files without definitions need no name.
//
//	go run ./internal/testenv/upward ./sampler/internal/...
//
// Two files count once, however often one uses the other. Tests do not count.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	flag.Parse()
	rooms, err := read(flag.Args()...)
	for _, r := range rooms {
		r.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// room is a package with its references.
type room struct {
	path     string
	files    int
	between  int      // pairs of files of which one uses the other
	up       []string // those that run up, as text
	nameless []string // files with references that the comment does not name
}

func (r room) print(w io.Writer) {
	for _, line := range r.up {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s: %d files, %d references between them, %d run up\n", r.path, r.files, r.between, len(r.up))
	if len(r.nameless) > 0 {
		fmt.Fprintf(w, "the package comment does not name %s\n", strings.Join(r.nameless, ", "))
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// read returns the rooms of packages, with what it could not read as an error.
func read(patterns ...string) (rooms []room, err error) {
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 {
			packages = append(packages, p)
		}
	}
	for _, p := range packages {
		r, bad := references(p, exports)
		rooms, err = append(rooms, r), errors.Join(err, bad)
	}
	return rooms, err
}

var fileName = regexp.MustCompile(`\b\w+\.go\b`)

// order returns the files that a package comment names, the first one first.
func order(comment string) (files []string) {
	if _, section, ok := strings.Cut(comment, "\n# Files\n"); ok {
		comment, _, _ = strings.Cut(section, "\n# ")
	}
	for _, name := range fileName.FindAllString(comment, -1) {
		if !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	return files
}

// references reads the files of a package. exports has the compiled packages that it may import.
func references(p listed, exports map[string]string) (room, error) {
	r, set, comment := room{path: p.ImportPath, files: len(p.GoFiles)}, token.NewFileSet(), ""
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return r, err
		}
		files, comment = append(files, f), comment+f.Doc.Text()
	}
	compiled := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	own, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, set, files, &info)
	if err != nil {
		return r, err
	}
	type pair struct{ user, definer string }
	used := map[pair]map[string]bool{}
	for id, o := range info.Uses {
		if o.Pkg() != own || !o.Pos().IsValid() {
			continue
		}
		two := pair{filepath.Base(set.Position(id.Pos()).Filename), filepath.Base(set.Position(o.Pos()).Filename)}
		if two.user == two.definer {
			continue
		}
		if used[two] == nil {
			used[two] = map[string]bool{}
		}
		used[two][o.Name()] = true
	}
	named := order(comment)
	r.between = len(used)
	for two, names := range used {
		user, definer := slices.Index(named, two.user), slices.Index(named, two.definer)
		if user >= 0 && definer >= 0 && definer < user {
			r.up = append(r.up, fmt.Sprintf("%s uses %s: %s", two.user, two.definer, strings.Join(slices.Sorted(maps.Keys(names)), ", ")))
		}
		for _, name := range []string{two.user, two.definer} {
			if !slices.Contains(named, name) && !slices.Contains(r.nameless, name) {
				r.nameless = append(r.nameless, name)
			}
		}
	}
	slices.Sort(r.up)
	slices.Sort(r.nameless)
	return r, nil
}
