package e2e

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gotach/profiler/internal/formats"
	_ "github.com/gotach/profiler/internal/formats/parquet" // adds the format
	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "write the tables of the documents and testdata/imports.txt")

const architecture = "docs/architecture.md"

// docs returns the names of all documents.
func docs(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	list, err := os.ReadDir(filepath.Join(root(t), "docs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".md") {
			pages = append(pages, "docs/"+e.Name())
		}
	}
	return pages
}

// prose returns a page without its blocks of code.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```\n").ReplaceAllString(page, "")
}

// read returns a file of this repository.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The table of formats in docs/formats.md is that of the code. With -update the test writes it.
func TestDocFormats(t *testing.T) {
	mark := map[bool]string{true: "yes", false: "–"}
	keeps := func(f *formats.Format) string {
		switch {
		case f.Series:
			return "samples"
		case f.Runs:
			return "runs"
		}
		return "sums"
	}
	var b strings.Builder
	b.WriteString("| format | read | write | keeps | files | what it is |\n|---|---|---|---|---|---|\n")
	for _, f := range formats.All() {
		files := "`" + strings.Join(f.Extensions, "` `") + "`"
		if f.Directory {
			files = "a directory, " + files
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, mark[f.CanRead()], mark[f.CanWrite()], keeps(f), files, f.Doc)
	}
	marked(t, "docs/formats.md", "formats", b.String(), "DocFormats")
}

// marked compares the text between the marks <!-- name --> and <!-- /name --> of a page with want, or writes it with -update.
func marked(t *testing.T, page, name, want, test string) {
	t.Helper()
	before, rest, ok := strings.Cut(read(t, page), "<!-- "+name+" -->\n")
	got, after, closed := strings.Cut(rest, "<!-- /"+name+" -->\n")
	switch {
	case !ok || !closed:
		t.Fatalf("no table of %s in %s", name, page)
	case got == want:
	case !*update:
		t.Fatalf("the table of %s in %s differs from the code; run: go test ./internal/e2e -run %s -update", name, page, test)
	default:
		text := before + "<!-- " + name + " -->\n" + want + "<!-- /" + name + " -->\n" + after
		if err := os.WriteFile(filepath.Join(root(t), page), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

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

// docs/recording.md, package documentation and code have the same environment variables.
func TestDocEnvironment(t *testing.T) {
	names := func(text string) []string {
		found := regexp.MustCompile(`PROFILE_[A-Z]+`).FindAllString(text, -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	_, table, _ := strings.Cut(read(t, "docs/recording.md"), "\n## Environment\n")
	_, doc, _ := strings.Cut(read(t, "doc.go"), "# Environment")
	code := names(read(t, "env.go"))
	if got := names(table); !slices.Equal(got, code) {
		t.Errorf("docs/recording.md has %v, env.go %v", got, code)
	}
	if got := names(doc); !slices.Equal(got, code) {
		t.Errorf("doc.go has %v, env.go %v", got, code)
	}
}

// Every gotach command that README and reference show works as shown.
func TestDocCommands(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir := t.TempDir()
	run(t, dir, nil, command(t), "demo", "-o", "app.tach", "-d", "300ms")
	if err := os.Mkdir(filepath.Join(dir, "profiles"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A file of a session with rotation, the profile of earlier tests, what the demo before it writes, and one to send.
	for _, name := range []string{"app.1.tach", "old.tach", "demo.tach", "profiles/app.1.tach"} {
		if err := os.Link(filepath.Join(dir, "app.tach"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.25\n",
		"m_test.go": "package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestSearch(*testing.T) { time.Sleep(100 * time.Millisecond) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var received atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer receiver.Close()
	var ran int
	shell := false // inside a block of shell commands
	text := read(t, "README.md") + read(t, "docs/recording.md") + read(t, "docs/reading.md") + read(t, "docs/fleet.md")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			shell = line == "```sh\n"
		}
		if !shell {
			continue
		}
		line, _, _ = strings.Cut(line, " #")
		args, ok := strings.CutPrefix(strings.TrimSpace(line), "gotach ")
		if !ok {
			continue
		}
		ran++
		if file, ok := strings.CutPrefix(args, "view "); ok {
			view(t, dir, strings.TrimSpace(file))
			continue
		}
		if strings.HasPrefix(args, "push ") { // to a receiver that is here, and only once
			args = strings.NewReplacer("http://collector:4318", receiver.URL, ":9464", "127.0.0.1:0").Replace(args) + " --once"
		}
		cmd := exec.Command("sh", "-c", command(t)+" "+args)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 && !strings.HasPrefix(args, "convert") && !strings.HasPrefix(args, "html") {
			t.Errorf("gotach %s: %v\n%s", args, err, out)
		}
	}
	if received.Load() == 0 {
		t.Error("gotach push sent nothing")
	}
	if ran < 6 {
		t.Errorf("found %d commands in the documents", ran)
	}
}

// view runs gotach view until it says where the page is.
func view(t *testing.T, dir, file string) {
	cmd := exec.Command(command(t), "view", "--no-open", file)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil || !strings.Contains(line, "http://127.0.0.1:") {
		t.Errorf("gotach view %s: %v, %q", file, err, line)
	}
}
