//go:build peers

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
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
	if got := run(t, dir, nil, gotach, "--version"); !strings.HasPrefix(got, "gotach "+released(t)+" ") {
		t.Errorf("its version is %q", got)
	}
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.25\n",
		"m_test.go": "package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestWait(*testing.T) { time.Sleep(50 * time.Millisecond) }\n",
	} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run(t, dir, env, gotach, "test", "./...")
	r := testenv.Must(reader.Open(filepath.Join(dir, "test.tach")))
	defer r.Close()
	if r.Header().Samples == 0 {
		t.Error("gotach test has no samples")
	}
}

// mostAdded bounds the bytes that Start adds to a stripped program. fgprof's Start adds 2.3 MB.
const mostAdded = 2_400_000

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

	if list := strings.Fields(gocmd("list", "-m", "-f", "{{.Path}}", "all")); len(list) > 7 {
		t.Errorf("%d modules, want 7: %v", len(list), list)
	}
	if sums := testenv.Must(os.ReadFile(filepath.Join(dir, "go.sum"))); strings.Count(string(sums), "\n") > 14 {
		t.Errorf("go.sum has more than 14 lines:\n%s", sums)
	}
	var loaded []string // in the module cache, which was empty
	cache = filepath.Join(cache, "cache", "download")
	testenv.OK(t, filepath.WalkDir(cache, func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".zip" {
			loaded = append(loaded, filepath.ToSlash(testenv.Must(filepath.Rel(cache, filepath.Dir(filepath.Dir(name))))))
		}
		return err
	}))
	slices.Sort(loaded)
	if want := []string{modulePath, "github.com/klauspost/compress", "golang.org/x/sys"}; !slices.Equal(loaded, want) {
		t.Errorf("downloaded %v, want %v", loaded, want)
	}
}
