package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
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

// rooms are the folders of all modules, with the folders that each may import. No folder may import one
// that is further down in the list, or in another module than its own and the library. "a/..." means a and all folders
// below it, which may import each other. Tests may import anything.
var rooms = []struct {
	folder  string
	imports string // our folders
	foreign string // others' modules
	is      string // description, for docs/architecture.md
}{
	{"tachyon", "", "", "the types of a profile; the file format as the package comment"},
	{"internal/hook/...", "tachyon", "", "where `export` and `leaks` reach into sessions, which do not link them"},
	{"internal/own", "", "", "the profiler's own goroutines and functions, which profiles leave out"},
	{"internal/prefetch", "", "", "one instruction: memory that is needed soon"},
	{"internal/testenv/...", "", "golang.org/x/sys", "what tests share; how measurements are judged"},
	{"internal/syscalls", "", "golang.org/x/sys", "the system calls of a session, for the tests and for policies"},
	{"internal/files", "", "", "opens files that others may have written or named"},
	{"internal/source", "tachyon internal/files", "", "reads source files that a profile names, where that is allowed"},
	{"internal/site", "", "", "which HTTP requests a foreign web page may have caused"},
	{"internal/frames", "tachyon", "", "numbers frames; translates between two tables"},
	{"internal/wire", "tachyon", "github.com/klauspost/compress", "bytes: header, footer, tables, checksum, zstd settings"},

	{"internal/mem", "", "golang.org/x/sys", "memory of this process, read and written by address"},
	{"internal/goruntime/...", "tachyon internal/mem", "golang.org/x/sys", "what is known of Go's runtime: offsets, statuses, wait reasons, tables of functions"},
	{"sampler/...", "tachyon internal/own internal/prefetch internal/mem internal/goruntime/...", "golang.org/x/sys", "ticks, sources, budget: which goroutine is sampled when"},
	{"internal/journal", "tachyon internal/files internal/wire", "golang.org/x/sys", "the writer's state in a mapped file, for kills"},
	{"writer", "tachyon internal/own internal/prefetch internal/files internal/wire internal/journal", "github.com/klauspost/compress", "samples to one file"},
	{"internal/rotate", "tachyon internal/frames internal/own internal/journal writer", "", "one stream of samples to many files"},
	{"internal/session", "tachyon internal/hook internal/own sampler writer internal/rotate", "", "what a session does: its files, its metadata, names of global locks"},
	{".", "internal/hook internal/own sampler internal/session", "", "package profiler: Start, Stop, options, environment"},
	{"auto", ". internal/own", "", "blank import that starts a session from the environment"},

	{"internal/reader", "tachyon internal/files internal/wire internal/journal", "github.com/klauspost/compress golang.org/x/sys", "decodes a file: samples, tables, what is known of goroutines"},
	{"proftest", ". writer", "", "the hook for `TestMain`"},
	{"internal/recovery", "tachyon internal/files internal/wire internal/journal internal/reader", "", "finishes the file of a killed program"},
	{"internal/stream", "tachyon internal/frames internal/reader", "", "the samples of many files one by one, with weights and labels"},
	{"reader", "tachyon internal/reader internal/stream", "", "what a program needs that computes something from profiles"},
	{"internal/profile", "tachyon internal/frames internal/reader internal/stream", "", "the profile added up"},
	{"nytprof", "", "github.com/klauspost/compress", "files of Perl's NYTProf, both ways"},
	{"internal/formats/...", "tachyon internal/files internal/frames writer internal/reader internal/stream internal/profile nytprof", "github.com/google/pprof github.com/klauspost/compress golang.org/x/sys", "the table of formats, and a package for each"},
	{"internal/analyze", "tachyon internal/stream internal/profile", "", "questions that samples answer: what the analyses share"},
	{"internal/analyze/syntax", "tachyon internal/source internal/analyze", "", "what source text says of locks and channels"},
	{"internal/analyze/idle", "tachyon internal/source internal/stream internal/profile internal/analyze internal/analyze/syntax", "", "which waits are idle"},
	{"internal/analyze/leaks", "tachyon internal/profile internal/analyze internal/analyze/idle", "", "which groups of goroutines grow"},
	{"internal/analyze/cores", "tachyon internal/stream internal/profile internal/analyze", "", "who had the cores while goroutines waited for one"},
	{"internal/analyze/locks", "tachyon internal/source internal/reader internal/stream internal/profile internal/analyze internal/analyze/idle internal/analyze/syntax", "", "what goroutines wait for, and who has it"},
	{"internal/analyze/requests", "tachyon internal/source internal/stream internal/profile internal/analyze internal/analyze/cores internal/analyze/idle internal/analyze/syntax", "", "how many requests there are, and why some are slow"},
	{"internal/analyze/diff", "tachyon internal/stream internal/profile internal/analyze internal/analyze/requests", "", "what changed between two sides"},
	{"internal/analyze/instant", "tachyon internal/stream internal/profile internal/analyze internal/analyze/idle", "", "what every goroutine did at an instant"},
	{"internal/analyze/report", "tachyon internal/source internal/stream internal/profile internal/analyze internal/analyze/cores internal/analyze/idle internal/analyze/leaks internal/analyze/locks internal/analyze/requests", "", "the samples added up; what one reading tells of all"},
	{"internal/analyze/findings", "tachyon internal/stream internal/profile internal/analyze/leaks internal/analyze/locks internal/analyze/requests internal/analyze/report", "", "what is wrong with a program, in sentences: a file for each kind"},
	{"internal/page", "tachyon internal/source internal/site internal/stream internal/profile internal/analyze internal/analyze/idle internal/analyze/leaks internal/analyze/locks internal/analyze/requests internal/analyze/diff internal/analyze/report internal/analyze/findings", "", "the HTML page of a profile: its data, its script, its server"},
	{"export", "internal/hook internal/formats", "", "blank import that lets a session write other formats"},
	{"leaks", "tachyon internal/hook internal/own", "", "blank import that lets a session ask the runtime for leaks"},
	{"httpprof/internal/shared", ". internal/session", "", "the session that all handlers share; their folders"},
	{"httpprof", ". internal/own internal/files internal/session internal/site internal/stream internal/formats internal/analyze internal/analyze/instant httpprof/internal/shared", "", "the handler for net/http"},
	{"httpprof/ui", ". internal/own internal/files internal/site internal/stream internal/formats internal/page httpprof/internal/shared", "", "the handler that serves the page of the running program"},
	{"internal/gotest/hook", ". internal/own internal/session", "", "what test binaries of `gotach test` do"},
	{"internal/page/pagetest", "tachyon internal/testenv/... writer internal/reader internal/stream internal/profile internal/analyze/report internal/page", "", "profiles for tests of the page"},
	{"internal/analyze/analyzetest", "tachyon internal/testenv/... writer internal/source internal/reader internal/stream internal/profile internal/analyze", "", "recordings for tests of the analyses"},

	{"cmd/gotach/internal/parquet", "tachyon internal/reader internal/stream internal/profile internal/formats", "github.com/parquet-go/parquet-go", "Parquet files for databases"},
	{"cmd/gotach/internal/top", "tachyon internal/files internal/reader internal/stream internal/profile internal/analyze internal/analyze/leaks internal/analyze/locks internal/analyze/report", "", "what `gotach top` shows: the latest samples of a running program"},
	{"cmd/gotach/internal/push", "tachyon internal/files internal/reader internal/journal internal/stream internal/profile internal/formats cmd/gotach/internal/parquet", "", "sends the files of a directory to other programs: cursor, retries, targets"},
	{"cmd/gotach/internal/gotest", "tachyon internal/reader internal/stream internal/formats internal/gotest/hook", "", "runs `go test` with a profile of all packages"},
	{"cmd/gotach/internal/attach", "tachyon internal/goruntime/... writer", "golang.org/x/sys", "reads and records the goroutines of another process, which knows nothing of it"},
	{"cmd/gotach", ". tachyon internal/files export internal/analyze internal/analyze/cores internal/analyze/leaks internal/analyze/locks internal/analyze/requests internal/analyze/diff internal/analyze/instant internal/analyze/report internal/analyze/findings internal/formats cmd/gotach/internal/attach cmd/gotach/internal/parquet cmd/gotach/internal/gotest internal/page internal/profile cmd/gotach/internal/push internal/recovery internal/source internal/stream cmd/gotach/internal/top", "github.com/spf13/cobra github.com/spf13/pflag github.com/schollz/progressbar/v3 charm.land/bubbletea/v2 charm.land/lipgloss/v2 golang.org/x/term", "the command: a file for each subcommand"},
	{"cmd/gotach/internal/fleet", "", "", "tests with databases: the statements of docs/fleet.md"},

	{"bench", ". tachyon internal/reader internal/testenv/...", "github.com/felixge/fgprof github.com/google/pprof golang.org/x/sys", "the comparison with other profilers"},
	{"bench/e2e", "", "", "tests across packages; the checks of this page"},
	{"bench/harmless", "", "", "tests that a profiled program does the same"},
	{"bench/browser", "", "", "tests of the page in a browser"},
	{"bench/otlp", "", "", "tests of OTLP with the protocol's own code"},
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
	for i, r := range rooms {
		for f := range strings.FieldsSeq(r.imports) {
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
		if want := path.Join(modulePath, moduleOf(folder)); p.Module.Path != want {
			t.Errorf("%s is in the module %s, want %s", folder, p.Module.Path, want)
		}
		i := room(folder)
		if i < 0 {
			t.Errorf("%s is in no room: add a row to the table rooms, and to docs/architecture.md", folder)
			continue
		}
		r := rooms[i]
		used[r.folder] = true
		for _, other := range p.Imports {
			switch f, ours := folderOf(other); {
			case ours:
				if j := room(f); j != i && (j < 0 || !slices.ContainsFunc(strings.Fields(r.imports), func(s string) bool { return room(s) == j })) {
					t.Errorf("%s imports %s, which its room may not", folder, f)
				}
			case strings.Contains(strings.Split(other, "/")[0], "."):
				if !slices.ContainsFunc(strings.Fields(r.foreign), func(m string) bool { return other == m || strings.HasPrefix(other, m+"/") }) {
					t.Errorf("%s imports %s, which its room may not", folder, other)
				}
			}
		}
	}
	for _, r := range rooms {
		if !used[r.folder] {
			t.Errorf("no package is in the room %s", r.folder)
		}
	}
}

// forbidden are packages that the profiler must not add to a program. Package net links cgo, which makes
// a static program dynamic and disables the runtime's detection of deadlocks. The others are large.
var forbidden = []string{
	"net", "net/*", "os/user", "os/exec", "os/signal", "runtime/cgo", "plugin",
	"debug/*", "go/*", "regexp", "regexp/*", "text/*", "html", "html/*", "encoding/xml", "encoding/gob",
	"archive/*", "database/*", "image", "testing", "crypto/tls", "crypto/x509",
	"github.com/google/*", "github.com/spf13/*",
}

// tolerated are forbidden packages that runtime/pprof imports, which the profiler needs for labels.
var tolerated = []string{"text/tabwriter"}

// testdata/imports.txt lists the packages that the root package links. With -update the test writes it.
func TestImports(t *testing.T) {
	var ours, standard []string
	for _, p := range list(t, "-deps", ".") {
		switch {
		case p.Standard:
			standard = append(standard, p.ImportPath)
		default:
			ours = append(ours, p.ImportPath)
		}
		if slices.Contains(tolerated, p.ImportPath) {
			continue
		}
		for _, pattern := range append(forbidden, modulePath+"/internal/formats", modulePath+"/internal/reader") {
			tree, all := strings.CutSuffix(pattern, "/*")
			if ok, _ := path.Match(pattern, p.ImportPath); ok || all && strings.HasPrefix(p.ImportPath, tree+"/") {
				t.Errorf("the root package links %s", p.ImportPath)
			}
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
