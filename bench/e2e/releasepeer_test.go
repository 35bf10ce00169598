//go:build peers

package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// TestPeerReleaseCommand installs the command as it is released. It finds the source of the library that gotach test needs.
func TestPeerReleaseCommand(t *testing.T) {
	testenv.Night(t, "with -trimpath all is compiled anew")
	bin, dir := t.TempDir(), t.TempDir()
	upstream := strings.TrimSpace(run(t, root(t), nil, "go", "env", "GOPROXY"))
	env := append(proxy(t, t.TempDir(), upstream), "GOBIN="+bin)
	run(t, dir, env, "go", "install", "-trimpath", modulePath+"/cmd/gotach@"+released(t))
	gotach := filepath.Join(bin, "gotach")
	testenv.Has(t, "its version", run(t, dir, nil, gotach, "--version"), "gotach "+released(t)+" ")
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.25\n",
		"m_test.go": "package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestWait(*testing.T) { time.Sleep(50 * time.Millisecond) }\n",
	} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run(t, dir, env, gotach, "test", "./...")
	r := testenv.Closes(t, testenv.Must(reader.Open(filepath.Join(dir, "test.tach"))))
	testenv.FailIf(t, r.Header().Samples == 0, "gotach test has no samples")
}

// mostAdded bounds the bytes that Start adds to a stripped program. fgprof's Start adds 2.3 MB.
const mostAdded = 2_280_000

// A module that imports the library, as it is released, has few modules in its graph, downloads only what it links, and its
// program becomes only a little larger.
func TestPeerReleaseLibrary(t *testing.T) {
	cache, dir := t.TempDir(), t.TempDir()
	env := append(proxy(t, cache), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	gocmd := func(args ...string) string { t.Helper(); return run(t, dir, env, "go", args...) }
	for from, to := range map[string]string{"hello/main.go": "main.go", "hello/profiled.go": "profiled.go"} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, to), testenv.Must(os.ReadFile(filepath.Join("testdata", from))), 0o644))
	}
	gocmd("mod", "init", "example.com/hello")
	gocmd("get", modulePath+"@"+released(t))
	size := func(tags string) int64 { // paths of source files are a part of a program
		gocmd("build", "-o", "hello", "-trimpath", "-ldflags=-s -w", "-tags="+tags)
		return testenv.Must(os.Stat(filepath.Join(dir, "hello"))).Size()
	}
	added := size("profiled") - size("")
	t.Logf("a stripped hello-world for linux/amd64 has %d bytes more with %s", added, runtime.Version())
	if added > mostAdded && strings.HasPrefix(runtime.Version(), "go1.26") {
		t.Errorf("the profiler adds %d bytes, at most %d are allowed", added, mostAdded)
	} else if added < 500_000 {
		t.Errorf("the profiler adds only %d bytes: is it linked?", added)
	}

	testenv.Within(t, "modules", strings.Count(gocmd("list", "-m", "all"), "\n"), 0, 7)
	testenv.Within(t, "lines of go.sum", bytes.Count(testenv.Must(os.ReadFile(filepath.Join(dir, "go.sum"))), []byte("\n")), 0, 14)
	var loaded []string // in the module cache, which was empty
	cache = filepath.Join(cache, "cache", "download")
	testenv.OK(t, filepath.WalkDir(cache, func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".zip" {
			loaded = append(loaded, filepath.ToSlash(testenv.Must(filepath.Rel(cache, filepath.Dir(filepath.Dir(name))))))
		}
		return err
	}))
	slices.Sort(loaded)
	testenv.SameList(t, "downloaded", loaded, []string{modulePath, "github.com/klauspost/compress", "golang.org/x/sys"})
}

// The README leads from nothing to a profile of the reader's program in at most six commands. The test does what it says, without
// the network: the clone is there.
func TestPeerReadmeProfile(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Profile your program\n")
	blocks := regexp.MustCompile("(?ms)^```(go|sh)\n(.*?)^```\n").FindAllStringSubmatch(section, 2)
	testenv.StopIf(t, len(blocks) < 2 || blocks[0][1] != "go" || blocks[1][1] != "sh", "README.md does not show a program and the commands: %q", blocks)
	dir, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/yours\n\ngo 1.25.0\n",
		"main.go": "package main\n\nimport \"time\"\n\n" + blocks[0][2] + "\tyours()\n}\n\nfunc yours() { time.Sleep(300 * time.Millisecond) }\n",
	} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	env := []string{"GOBIN=" + bin, "PATH=" + bin + ":" + os.Getenv("PATH"), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-buildvcs=false"}
	var out string
	count := 1 // git clone
	for line := range strings.Lines(blocks[1][2]) {
		c, comment, _ := strings.Cut(line, " #")
		in := dir
		if strings.HasPrefix(comment, " in the clone") {
			in = root(t)
		}
		out = run(t, in, env, "sh", "-c", strings.ReplaceAll(c, "CLONE", root(t)))
		count++
	}
	testenv.FailIf(t, !strings.Contains(out, "[sleep] main.yours"), "the report does not show main.yours:\n%s", out)
	testenv.FailIf(t, count > 6, "it takes %d commands", count)
}
