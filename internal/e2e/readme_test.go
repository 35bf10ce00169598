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
)

var update = flag.Bool("update", false, "write the README's table of formats and testdata/imports.txt")

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The README's table of formats is that of the code. With -update the test writes it.
func TestReadmeFormats(t *testing.T) {
	text := readme(t)
	const begin, end = "<!-- formats -->\n", "<!-- /formats -->\n"
	from, to := strings.Index(text, begin)+len(begin), strings.Index(text, end)
	if from < len(begin) || to < from {
		t.Fatal("no table of formats in README.md")
	}
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
	if text[from:to] == b.String() {
		return
	}
	if !*update {
		t.Fatal("README.md's table of formats differs from the code; run: go test ./internal/e2e -run ReadmeFormats -update")
	}
	if err := os.WriteFile(filepath.Join(root(t), "README.md"), []byte(text[:from]+b.String()+text[to:]), 0o644); err != nil {
		t.Fatal(err)
	}
}

// README, package documentation and code have the same environment variables.
func TestReadmeEnvironment(t *testing.T) {
	names := func(text string) []string {
		found := regexp.MustCompile(`PROFILE_[A-Z]+`).FindAllString(text, -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, table, _ := strings.Cut(readme(t), "## Environment")
	table, _, _ = strings.Cut(table, "\n## ")
	_, doc, _ := strings.Cut(read("doc.go"), "# Environment")
	code := names(read("env.go"))
	if got := names(table); !slices.Equal(got, code) {
		t.Errorf("README.md has %v, env.go %v", got, code)
	}
	if got := names(doc); !slices.Equal(got, code) {
		t.Errorf("doc.go has %v, env.go %v", got, code)
	}
}

// Every gotach command that the README shows works as shown.
func TestReadmeCommands(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, nil, command(t), "demo", "-o", "app.tach", "-d", "300ms")
	if err := os.Link(filepath.Join(dir, "app.tach"), filepath.Join(dir, "app.1.tach")); err != nil {
		t.Fatal(err) // app.1.tach stands for a file of a session with rotation
	}
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.25\n",
		"m_test.go": "package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestSearch(*testing.T) { time.Sleep(time.Second) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "app.tach"), filepath.Join(dir, "old.tach")); err != nil {
		t.Fatal(err) // old.tach stands for the profile of earlier tests
	}
	if err := os.Link(filepath.Join(dir, "app.tach"), filepath.Join(dir, "demo.tach")); err != nil {
		t.Fatal(err) // what the demo before it writes
	}
	if err := os.Mkdir(filepath.Join(dir, "profiles"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "app.tach"), filepath.Join(dir, "profiles", "app.1.tach")); err != nil {
		t.Fatal(err)
	}
	var received atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	defer receiver.Close()
	var ran int
	shell := false // inside a block of shell commands
	for line := range strings.Lines(readme(t)) {
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
		t.Errorf("found %d commands in the README", ran)
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
