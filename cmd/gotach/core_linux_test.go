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

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/cmd/gotach/internal/attach"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

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
	p := testenv.Must(attach.Await(context.Background(), pid))
	for states := map[string]int{}; states["sync.Mutex.Lock"] < 7 || states["chan receive"] < 1 || states["syscall"] < 1; {
		list, _, err := p.Goroutines()
		must(err)
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
		if units := regexp.MustCompile(`\d(ns|µs|ms|s)\b`).FindString(out); code != exitOK || !strings.Contains(out, want) || units != "" {
			t.Errorf("gotach %v: exit code %d, not %q, or it has the time %q\n%s%s", args, code, want, units, out, errs)
		}
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
		if out, errs, code := ran(args...); code == exitOK || !strings.Contains(errs, want) {
			t.Errorf("gotach %v: exit code %d, not %q\n%s%s", args, code, want, out, errs)
		}
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
	if left := testenv.Must(os.ReadDir(temporary)); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
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
		if !strings.Contains(out, "main.mu") || !strings.Contains(out, "who held it is not known") || strings.Contains(out, "seen, ") {
			t.Errorf("gotach %s:\n%s", command, out)
		}
	}
}
