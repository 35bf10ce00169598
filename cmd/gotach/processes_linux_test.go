package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/gotach/profiler/cmd/gotach/internal/attach"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"

	"golang.org/x/sys/unix"
)

// The command with at most 32 open files is one of the programs of TestMain.
func init() {
	programs["fewfiles"] = func() {
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 32, Max: 32}))
		main()
	}
}

// TestManyProcesses reads the files of many processes with few open files, and in spite of files that are damaged or of another
// kind, of which it warns.
func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	add := func(name string, b []byte) {
		paths = append(paths, filepath.Join(dir, name))
		must(os.WriteFile(paths[len(paths)-1], b, 0o644))
	}
	writeFixture(filepath.Join(dir, "whole"), leaky)
	whole := testenv.Must(os.ReadFile(filepath.Join(dir, "whole")))
	torn := bytes.Clone(whole)
	for i := range torn[100:200] {
		torn[len(torn)/4+i] ^= 0x55
	}
	add("cut.tach", whole[:len(whole)/2])
	add("text.tach", []byte("no profile"))
	add("empty.tach", nil)
	add("folded.folded", []byte("main;f 100\n"))
	add("torn.tach", torn)
	bad := len(paths)
	for n := range 40 {
		add(fmt.Sprintf("app-%d.tach", n), whole)
	}
	cmd := testCommand(t, "fewfiles", append([]string{"leaks"}, paths...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	code := cmd.ProcessState.ExitCode()
	testenv.FailIf(t, code != 1 || !strings.Contains(out.String(), " and 40 more: "), "exit code %d, want 1, and what the files have that are whole\n%s", code, &out)
	for _, path := range paths[:bad] {
		testenv.Same(t, "warnings for "+path, strings.Count(errs.String(), path+": "), 1)
	}
	testenv.FailIf(t, !strings.Contains(errs.String(), "5 of 45 files could not be read as a whole"), "%v", errs.String())
}

// With --children, the Go programs that a command starts have files of their own, also if the command is a script. Without it, a script is recorded
// from when it runs a Go program in its place.
func TestRecordChildren(t *testing.T) {
	testenv.Long(t)
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		testenv.Skip(t, "programs of "+runtime.GOARCH+" are not read")
	}
	app := filepath.Join(t.TempDir(), "app")
	must(testenv.Build(app, "./testdata/children", nil))
	for _, c := range []struct {
		command []string
		first   int // files of the command itself
		others  int
	}{
		{[]string{app}, 1, 2},
		{[]string{"sh", "-c", `"$0"; exit 7`, app}, 0, 3},
		{[]string{"sh", "-c", `exec "$0"`, app}, 1, 2},
		{[]string{"sh", "-c", `"$0" </dev/null; exec "$0"`, app}, 1, 0},
	} {
		dir := t.TempDir()
		cmd := testCommand(t, "gotach", append([]string{"record", fmt.Sprint("--children=", c.others > 0), "-o", filepath.Join(dir, "x.tach"), "--"}, c.command...)...)
		in := testenv.Must(cmd.StdinPipe())
		var said bytes.Buffer
		cmd.Stderr = &said
		must(cmd.Start())
		found := func(pattern string) []string { return testenv.Must(filepath.Glob(filepath.Join(dir, pattern))) }
		testenv.Await(func() bool { return len(found("x-app-*.tach")) == c.others && len(found("x.tach")) == c.first })
		must(in.Close())
		err := cmd.Wait()
		testenv.Same(t, []any{"exit code of", c.command, err, &said}, cmd.ProcessState.ExitCode(), 7*(1-c.first))
		pids := map[string]bool{}
		for _, path := range append(found("x.tach"), found("x-app-*.tach")...) {
			out, _, _ := ran("info", path)
			m := regexp.MustCompile(`process +(\d+) on`).FindStringSubmatch(out)
			if m == nil || strings.Contains(path, "x-app-") && !strings.Contains(path, "x-app-"+m[1]+".tach") || strings.Contains(out, "not stopped") {
				t.Errorf("%s:\n%s", path, out)
				continue
			}
			pids[m[1]] = true
			testenv.FailIf(t, !strings.Contains(said.String(), filepath.Base(path)+": "), "nothing is said of %s:\n%s", path, &said)
		}
		testenv.FailIf(t, len(pids) != c.first+c.others || strings.Contains(said.String(), "no whole profile"), "%v: files of the processes %v\n%s", c.command, pids, &said)
		testenv.Same(t, "files", len(testenv.Must(os.ReadDir(dir))), len(pids))
	}
}

// leaveCore has a program that deadlocks leave a core. It returns the path of that.
func leaveCore(t *testing.T) string {
	if pattern := string(testenv.Must(os.ReadFile("/proc/sys/kernel/core_pattern"))); !strings.HasPrefix(pattern, "core") {
		testenv.Skip(t, "the kernel gives cores to "+pattern)
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		testenv.Skip(t, "cores of "+runtime.GOARCH+" are not read")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "app")
	must(testenv.Build(program, "./testdata/core", nil))
	cmd := exec.Command(program)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOTRACEBACK=crash")
	in := testenv.Must(cmd.StdinPipe())
	must(cmd.Start())
	defer in.Close()
	pid := cmd.Process.Pid
	p := testenv.Must(attach.Open(context.Background(), pid))
	for states := map[string]int{}; states["sync.Mutex.Lock"] < 7 || states["chan receive"] < 1 || states["syscall"] < 1; {
		list, _ := testenv.Must2(p.Goroutines())
		clear(states)
		for _, g := range list {
			states[g.State]++
		}
	}
	must(unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}, nil))
	must(unix.Kill(pid, unix.SIGABRT))
	_ = cmd.Wait()
	return testenv.Must(filepath.Glob(filepath.Join(dir, "core*")))[0]
}

// A core is read as a profile of one instant, which says how many goroutines did what, and who has the locks that others wait for. It has no
// times. What is cut off or of another kind is an error that says where.
func TestCore(t *testing.T) {
	testenv.Long(t)
	core := leaveCore(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	app := filepath.Join(filepath.Dir(core), "app")
	says := func(want string, args ...string) {
		t.Helper()
		out, errs, code := ran(args...)
		units := regexp.MustCompile(`\d(ns|µs|ms|s)\b`).FindString(out)
		testenv.FailIf(t, code != exitOK || !strings.Contains(out, want) || units != "", "gotach %v: exit code %d, not %q, or it has the time %q\n%s%s", args, code, want, units, out, errs)
	}
	for _, want := range []string{
		"9 goroutines, of which 0 ran", "7  77.8 %  ░░░░░░░░░░        0  sync.Mutex.Lock", "5  55.6 %  ░░░░░░░░░░        0  [sync.Mutex.Lock] main.(*cache).get  main.go:",
		"         5  c.mu  sync.Mutex 1\n", "[chan receive] main.(*cache).load",
	} {
		says(want, "report", core)
	}
	says("GOROUTINES  LOCK\n         5  c.mu  sync.Mutex 1\n         5    [sync.Mutex.Lock] main.(*cache).get", "locks", core, app)
	says("      5  55.6 %  ░░░░░░░░░░        0  sync.Mutex 0x", "report", core, "--by", "object")
	says("which waits for a goroutine above: a deadlock", "waits", "main.*one", core)
	says("source       core", "info", core)
	says("9 samples of 9 goroutines", "verify", core, app)

	tach := filepath.Join(t.TempDir(), "x.tach")
	says("", "convert", core, "-o", tach)
	says("9 goroutines, of which 0 ran", "report", tach)

	fails := func(want string, args ...string) {
		t.Helper()
		out, errs, code := ran(args...)
		testenv.FailIf(t, code == exitOK || !strings.Contains(errs, want), "gotach %v: exit code %d, not %q\n%s%s", args, code, want, out, errs)
	}
	for _, command := range []string{"why", "leaks", "requests", "html"} {
		fails(core+": it is of one instant, and has no times", command, core)
	}
	fails(core+": it is of one instant, and has no times", "view", "--no-open", core)
	fails(tach+": it is of one instant, and has no times", "why", tach)
	fails("it is of another build than", "report", core, os.Args[0])
	fails("is a core file; it is read alone", "report", core, app, app)
	fails(core+" is a core file; its executable comes after it", "view", app, core)
	fails(core+" is a core file; its executable comes after it", "report", app, core)
	t.Chdir(filepath.Dir(core))
	must(os.Symlink(core, "select")) // the name of a topic of help
	says("9 goroutines, of which 0 ran", "select")
	fails("need times", "report", core, "--weight", "latency")
	fails("its states are sync.Mutex.Lock", "report", core, "--state", "no such")
	whole := testenv.Must(os.ReadFile(core))
	notes := 0 // where they end: they grow with the threads
	for _, p := range testenv.Must(elf.NewFile(bytes.NewReader(whole))).Progs {
		if p.Type == elf.PT_NOTE {
			notes = int(p.Off + p.Filesz)
		}
	}
	for name, size := range map[string]int{fmt.Sprint("it ends at offset ", notes+1000): notes + 1000, "its notes are cut at offset 3000": 3000, "core: ": 64} {
		must(os.WriteFile(core, whole[:size], 0o600))
		fails(name, "report", core, app)
	}
	testenv.Empty(t, temporary)
}

// A lock of an instant has a holder, or it is not known who that is. Shares of the time waited are of recordings.
func TestUnknownHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	writeFixture(path, func(f *fixture, _ []string) {
		f.session = tachyon.Session{Source: "core", Instant: true, Markers: true}
		f.object(3, tachyon.ObjectMutex, 0x1000, "main.mu")
		for id := range uint64(2) {
			f.add(1+id, 1, 0, tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 3}, lib("sync/mutex.go", "sync.(*Mutex).Lock", 46), own("main.go", "get", 7))
		}
	})
	for _, command := range []string{"report", "locks"} {
		out, _, _ := ran(command, path)
		testenv.FailIf(t, !strings.Contains(out, "main.mu") || !strings.Contains(out, "who held it is not known") || strings.Contains(out, "seen, "), "gotach %s:\n%s", command, out)
	}
}
