//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// TestPeerSuites checks that each test of a suite has the same verdict with and without the profiler.
func TestPeerSuites(t *testing.T) {
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			s.read(t)
			if s.night {
				testenv.Night(t, "a few suites are enough")
			}
			for _, p := range prepare(t, s) {
				t.Run(p.path, func(t *testing.T) {
					p.build(t)
					for _, harm := range compare(t, s, p, testenv.Times(1, 3)) {
						t.Error(harm)
					}
				})
			}
		})
	}
}

// harms describes the harm that a run with the profiler shows. text is what it printed, profile what is said of its file.
func harms(plain, profiled run, text, profile string) (harm []string) {
	found := func(format string, args ...any) { harm = append(harm, fmt.Sprintf(format, args...)) }
	if len(plain.verdict) == 0 {
		return []string{"no test ran\n" + tail(plain.log)}
	}
	if d := cmp.Diff(plain.outcome, profiled.outcome); d != "" {
		found("without the profiler, and with it:\n%s\nwith it:\n%s\nwithout it:\n%s", d, tail(profiled.log), tail(plain.log))
	}
	if plain.killed || profiled.killed {
		found("killed after the timeout; with the profiler: %v, without: %v", profiled.killed, plain.killed)
	}
	if strings.Contains(text, "gotach: ") {
		found("the profiler complains\n%s", tail(profiled.log))
	}
	if !strings.HasPrefix(profile, "profile whole") {
		found("%s", profile)
	}
	return harm
}

// compare runs one package's tests with and without the profiler, in turns, so that other load on
// the machine affects both. It returns the differences.
func compare(t *testing.T, s suite, p pkg, rounds int) (harm []string) {
	t.Helper()
	for round := range rounds {
		out := t.TempDir()
		plain := start(t, s, p, p.plain, filepath.Join(out, "plain.log"))
		profiled := start(t, s, p, p.profiled, filepath.Join(out, "profiled.log"),
			"PROFILE_OUT="+filepath.Join(out, "%p.tach"), "PROFILE_SOURCE=native", "PROFILE_RATE=1000")
		text := testenv.Must(os.ReadFile(profiled.log))
		file := profile(t, filepath.Join(out, fmt.Sprint(profiled.pid, ".tach")), "native")
		for _, h := range harms(plain, profiled, string(text), file) {
			harm = append(harm, fmt.Sprintf("round %d: %s", round, h))
		}
		t.Logf("round %d: %d verdicts, %s, %.1f s and %.1f s with the profiler: %s", round, len(plain.verdict), plain.end, plain.took.Seconds(), profiled.took.Seconds(), file)
	}
	return harm
}

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
	testenv.Same(t, testingFile+": methods after of M, to hook into", bytes.Count(src, []byte(testingAfter)), 1)
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
		testenv.Must(fmt.Sscan(line, &p.path, &name, &p.dir))
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
	testenv.FailIf(t, len(pkgs) == 0, "no tests in %s %v", s.module, s.pkgs)
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
			err := json.Unmarshal([]byte(out), &got)
			testenv.StopIf(t, err != nil || got.Dir == "", "go mod download %s: %v %s", module, err, got.Error)
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
	goroot, cache, _ := strings.Cut(strings.TrimSpace(testenv.Run(t, exec.Command("go", "env", "GOROOT", "GOMODCACHE"))), "\n")
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

// An outcome is the part of a run that is compared.
type outcome struct {
	end     string            // "exit status 1", "signal: segmentation fault"
	verdict map[string]string // of each test: pass, fail, skip; "" if it has none
}

// run is one run of a test binary.
type run struct {
	outcome
	pid    int
	log    string // the file with its output
	took   time.Duration
	killed bool
}

// start runs a test binary until it ends. Its output goes to the file log.
func start(t *testing.T, s suite, p pkg, binary, log string, env ...string) run {
	t.Helper()
	args := []string{"-test.v=test2json", "-test.count=1", "-test.short", "-test.timeout=" + s.timeout.String()}
	if s.run != "" {
		args = append(args, "-test.run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	out := testenv.Closes(t, testenv.Must(os.Create(log)))
	cmd := exec.Command(binary, args...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = out, out
	// The environment is that of `go test`, without settings of the profiler except those in env.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PROFILE_") || strings.HasPrefix(kv, "GOTACH_") || strings.HasPrefix(kv, "GOFLAGS=")
	})
	cmd.Env = append(append(cmd.Env, "PWD="+p.dir), env...)
	begin := time.Now()
	testenv.OK(t, cmd.Start())
	r := run{pid: cmd.Process.Pid, log: log}
	// -test.timeout works only if the runtime still works. If it does not, SIGQUIT may still
	// print the stacks.
	quit := time.AfterFunc(s.timeout+30*time.Second, func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		time.Sleep(10 * time.Second)
		_ = cmd.Process.Kill()
	})
	err := cmd.Wait()
	r.killed = !quit.Stop()
	r.took = time.Since(begin)
	testenv.StopIf(t, err != nil && !errors.As(err, new(*exec.ExitError)), "%v", err)
	r.end = cmd.ProcessState.String()
	r.verdict = verdicts(t, p, log)
	return r
}

// verdicts parses the output of a test binary with go tool test2json.
func verdicts(t *testing.T, p pkg, log string) map[string]string {
	t.Helper()
	in := testenv.Closes(t, testenv.Must(os.Open(log)))
	cmd := exec.Command("go", "tool", "test2json", "-p", p.path)
	cmd.Stdin = in
	v := map[string]string{}
	for line := range bytes.Lines(testenv.Must(cmd.Output())) {
		var e struct{ Action, Test string }
		testenv.OK(t, json.Unmarshal(line, &e))
		switch e.Action {
		case "run":
			v[e.Test] = ""
		case "pass", "fail", "skip":
			if e.Test != "" {
				v[e.Test] = e.Action
			}
		}
	}
	return v
}

// tail returns the end of a log, after the text at the first sign of a crash in it.
func tail(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	const most = 6000
	out := ""
	for _, sign := range []string{"\nfatal error: ", "\nSIG", "\npanic: ", "\nruntime: ", "\nunexpected fault"} {
		if i := bytes.Index(b, []byte(sign)); i >= 0 {
			out += string(b[i:min(len(b), i+most)]) + "\n…\n"
			break
		}
	}
	return out + string(b[max(0, len(b)-most):])
}
