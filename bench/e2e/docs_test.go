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

// The table of rooms in docs/architecture.md is that of TestRooms. With -update the test writes it.
func TestArchitectureRooms(t *testing.T) {
	names := func(list string) string {
		if list == "" {
			return "–"
		}
		return "`" + strings.Join(strings.Fields(list), "` `") + "`"
	}
	var table strings.Builder
	table.WriteString("| room | what it is | may import of ours | and of others' |\n|---|---|---|---|\n")
	module := "."
	for _, r := range rooms {
		if m := moduleOf(r.folder); m != module {
			module = m
			fmt.Fprintf(&table, "| **module `%s`** | | | |\n", m)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r.folder, r.is, names(r.imports), names(r.foreign))
	}
	testenv.Marked(t, filepath.Join(root(t), architecture), "rooms", table.String(), *update)
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
