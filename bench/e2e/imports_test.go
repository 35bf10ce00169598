package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

const modulePath = "github.com/gotach/profiler"

// modules are the folders of the modules other than the library.
var modules = []string{"cmd/gotach", "bench"}

// moduleOf returns the folder of the module that a folder is in, "." for the library.
func moduleOf(folder string) string {
	for _, m := range modules {
		if folder == m || strings.HasPrefix(folder, m+"/") {
			return m
		}
	}
	return "."
}

// A row is a row of the table of rooms in docs/architecture.md: a folder, with the folders that it may import, and others' modules. No folder
// may import one that is further down in the table, or in another module than its own and the library. "a/..." means a and all folders
// below it, which may import each other. Tests may import anything.
type row struct {
	folder           string
	imports, foreign []string
}

// rooms are the rows of the table.
var rooms []row

// readRooms reads the table.
func readRooms(t *testing.T) {
	_, table, _ := strings.Cut(read(t, architecture), "<!-- rooms -->\n")
	table, _, _ = strings.Cut(table, "<!-- /rooms -->\n")
	names := func(cell string) []string {
		return strings.Fields(strings.ReplaceAll(strings.Trim(cell, "–"), "`", ""))
	}
	rooms = nil
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(table, -1) {
		rooms = append(rooms, row{m[1], names(m[2]), names(m[3])})
	}
	lines := strings.Count(table, "\n| `")
	testenv.StopIf(t, lines < 50 || lines != len(rooms), "%d of %d rows of the table of rooms can be read", len(rooms), lines)
}

// room returns the index of the row for a folder, the one with the longest match, or -1.
func room(folder string) (found int) {
	found = -1
	for i, r := range rooms {
		tree, all := strings.CutSuffix(r.folder, "/...")
		if (folder == tree || all && strings.HasPrefix(folder, tree+"/")) && (found < 0 || len(r.folder) > len(rooms[found].folder)) {
			found = i
		}
	}
	return found
}

type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Module     *struct{ Path string }
}

// list runs go list for linux/amd64 with cgo. With these settings package net would link cgo.
func list(t *testing.T, args ...string) (packages []listed) {
	t.Helper()
	out := run(t, root(t), []string{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1"}, "go",
		append([]string{"list", "-json=ImportPath,Standard,Imports,Module"}, args...)...)
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// folderOf returns a package's folder in the module, "." for the root.
func folderOf(importPath string) (folder string, ours bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// Every package imports only what its room may import. Samples flow in one direction: no room imports one
// that is further down.
func TestRooms(t *testing.T) {
	readRooms(t)
	for i, r := range rooms {
		for _, f := range r.imports {
			if j := room(f); j < 0 || j >= i {
				t.Errorf("the table lets %s import %s, which is not above it", r.folder, f)
			} else if m := moduleOf(rooms[j].folder); m != "." && m != moduleOf(r.folder) {
				t.Errorf("the table lets %s import %s, of the module %s", r.folder, f, m)
			}
		}
	}
	used := map[string]bool{}
	for _, p := range list(t, "work") {
		folder, _ := folderOf(p.ImportPath)
		testenv.Same(t, folder+" is in the module", p.Module.Path, path.Join(modulePath, moduleOf(folder)))
		i := room(folder)
		if i < 0 {
			t.Errorf("%s is in no room: add a row to the table in docs/architecture.md", folder)
			continue
		}
		r := rooms[i]
		used[r.folder] = true
		for _, other := range p.Imports {
			switch f, ours := folderOf(other); {
			case ours:
				j := room(f)
				may := j == i || j >= 0 && slices.ContainsFunc(r.imports, func(s string) bool { return room(s) == j })
				testenv.FailIf(t, !may, "%s imports %s, which its room may not", folder, f)
			case strings.Contains(strings.Split(other, "/")[0], "."):
				testenv.FailIf(t, !slices.ContainsFunc(r.foreign, func(m string) bool { return other == m || strings.HasPrefix(other, m+"/") }), "%s imports %s, which its room may not", folder, other)
			}
		}
	}
	for _, r := range rooms {
		testenv.FailIf(t, !used[r.folder], "no package is in the room %s", r.folder)
	}
}

// testdata/imports.txt lists the packages that the root package and auto link. With -update the test writes it. Package net must not be there: it links
// cgo, which makes a static program dynamic and disables the runtime's detection of deadlocks (TestStatic). Nor should large ones.
func TestImports(t *testing.T) {
	var ours, standard []string
	for _, p := range list(t, "-deps", ".", "./auto") {
		if p.Standard {
			standard = append(standard, p.ImportPath)
		} else {
			ours = append(ours, p.ImportPath)
		}
	}
	slices.Sort(ours)
	slices.Sort(standard)
	text := func(list []string) string { return strings.Join(list, "\n") + "\n" }
	golden := filepath.Join("testdata", "imports.txt")
	got := text(ours) + "\n" + text(standard)
	if !strings.HasPrefix(runtime.Version(), "go1.26") { // other versions have other internal packages
		b := testenv.Must(os.ReadFile(golden))
		_, of, _ := strings.Cut(string(b), "\n\n")
		got = text(ours) + "\n" + of
	}
	testenv.Golden(t, golden, got, *update)
}

// A function's name says what it is, and its file's build tag says when it runs: TestPeer with peers,
// TestMeasure with measure, other tests with neither. See docs/architecture.md.
func TestKinds(t *testing.T) {
	buildLine, tags := regexp.MustCompile(`(?m)^//go:build .*$`), regexp.MustCompile(`\b(peers|measure)\b`)
	tests := regexp.MustCompile(`(?m)^func (Test(Peer|Measure)?\w*)\(t `)
	found := map[string]int{}
	err := filepath.WalkDir(root(t), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		tag := tags.FindString(buildLine.FindString(string(text)))
		found[tag]++
		for _, m := range tests.FindAllStringSubmatch(string(text), -1) {
			testenv.Same(t, file+": the build tag of "+m[1], strings.ToLower(m[2]), strings.TrimSuffix(tag, "s"))
		}
		return err
	})
	testenv.OK(t, err)
	testenv.FailIf(t, found[""] == 0 || found["peers"] == 0 || found["measure"] == 0, "files by build tag: %v", found)
}
