//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// hookFile is added to each package under test. It imports auto, so the profiler starts in an init
// function if PROFILE_OUT is set. The file is part of the external test package, because the
// profiler itself imports some of the packages under test.
const hookFile = `package %s

import (
	"os"
	"testing"

	"github.com/gotach/profiler/auto"
	%s
)

func init() {
	%s
	testing.GotachAtEnd = func() {
		if err := auto.Stop(); err != nil {
			os.Stderr.WriteString("gotach: " + err.Error() + "\n")
		}
	}
}
`

// auto finishes its file only when Stop is called. Many packages have a TestMain that calls os.Exit.
// So package testing calls Stop: every M.Run that ends with a verdict calls M.after at its end.
const (
	testingAfter  = "\nfunc (m *M) after() {\n"
	testingHooked = "\nvar GotachAtEnd func()\n" + testingAfter + "\tif GotachAtEnd != nil {\n\t\tGotachAtEnd()\n\t}\n"
)

// A pkg is one package under test.
type pkg struct {
	path, dir       string
	plain, profiled string // the test binaries
	build           func(*testing.T)
}

// prepare gets the suite's module and lists its packages. It does not build them.
func prepare(t *testing.T, s suite) []pkg {
	t.Helper()
	work := t.TempDir()
	goroot := toolchain(t, work)
	module := moduleIn(t, goroot, work, s.module)
	testingFile := filepath.Join(goroot, "src", "testing", "testing.go")
	src := testenv.Must(os.ReadFile(testingFile))
	if bytes.Count(src, []byte(testingAfter)) != 1 {
		t.Fatalf("%s has no method after of M, to hook into", testingFile)
	}
	hooked := write(t, filepath.Join(work, "testing.go"), strings.Replace(string(src), testingAfter, testingHooked, 1))

	list := gocmd(t, goroot, module, append([]string{"list", "-mod=mod", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Name}} {{.Dir}}{{end}}"}, s.pkgs...)...)
	imports := ""
	for _, path := range s.imports {
		imports += fmt.Sprintf("%q\n", path)
	}
	var pkgs []pkg
	for line := range strings.Lines(list) {
		var p pkg
		var name string
		if _, err := fmt.Sscan(line, &p.path, &name, &p.dir); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		base := filepath.Join(work, strings.ReplaceAll(p.path, "/", "_"))
		p.plain, p.profiled = base+".plain.test", base+".profiled.test"
		p.build = func(t *testing.T) {
			t.Helper()
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
				filepath.Join(p.dir, "zz_gotach_test.go"): write(t, base+"_test.go", fmt.Sprintf(hookFile, name+"_test", imports, s.hook)),
				testingFile: hooked,
			}})
			testenv.OK(t, err)
			test := []string{"test", "-mod=mod", "-vet=off", "-c"}
			gocmd(t, goroot, module, append(test, "-o", p.profiled, "-overlay", write(t, base+".json", string(overlay)), p.path)...)
			gocmd(t, goroot, module, append(test, "-o", p.plain, p.path)...)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatalf("no tests in %s %v", s.module, s.pkgs)
	}
	return pkgs
}

// moduleIn makes a directory with a module that requires gotach: a copy of path@version, of a directory in this one, or an
// empty one.
func moduleIn(t *testing.T, goroot, work, module string) (dir string) {
	t.Helper()
	dir = filepath.Join(work, "module")
	if module == "" {
		testenv.OK(t, os.Mkdir(dir, 0o755))
		write(t, filepath.Join(dir, "go.mod"), "module harmless\n\ngo 1.25.0\n")
	} else {
		// A copy, because the module cache is read-only, and tests write files in their directories. Also, only the main
		// module can import its internal packages.
		if strings.Contains(module, "@") {
			var got struct{ Dir, Error string }
			out := gocmd(t, goroot, t.TempDir(), "mod", "download", "-json", module)
			if err := json.Unmarshal([]byte(out), &got); err != nil || got.Dir == "" {
				t.Fatalf("go mod download %s: %v %s", module, err, got.Error)
			}
			module = got.Dir
		}
		testenv.OK(t, os.CopyFS(dir, os.DirFS(module)))
	}
	checkout := testenv.Must(filepath.Abs("../.."))
	// Use the module's requirements and ours, the higher version of each, for both binaries.
	gocmd(t, goroot, dir, "mod", "edit", "-toolchain=none",
		"-require=github.com/gotach/profiler@v0.0.0", "-replace=github.com/gotach/profiler="+checkout)
	return dir
}

// offline are parts of the go command's messages when it cannot reach a module proxy.
var offline = []string{"dial tcp", "module lookup disabled by GOPROXY=off", "i/o timeout", "no such host"}

// toolchain returns the GOROOT to build with. A toolchain that the go command has downloaded is in
// the module cache, and the go command refuses overlays there. So toolchain makes a link to it.
func toolchain(t *testing.T, work string) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		t.Fatalf("go env: %v", err)
	}
	goroot, cache, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !strings.HasPrefix(goroot, cache+string(filepath.Separator)) {
		return goroot
	}
	link := filepath.Join(work, "goroot")
	testenv.OK(t, os.Symlink(goroot, link))
	return link
}

// gocmd runs the go command and returns its output.
func gocmd(t *testing.T, goroot, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(goroot, "bin", "go"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOROOT="+goroot, "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := stdout.String() + stderr.String()
		for _, words := range offline {
			if strings.Contains(said, words) {
				testenv.Skip(t, "no module proxy: "+strings.TrimSpace(said))
			}
		}
		t.Fatalf("%s: %v\n%s", cmd, err, said)
	}
	return stdout.String()
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	testenv.OK(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}
