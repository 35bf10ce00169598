package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gotach":   main,
		"killed":   killed,
		"rotates":  rotates,
		"quota":    quota,
		"leaky":    leaky,
		"differs":  differs,
		"serves":   serves,
		"contends": contends,
		"crowded":  crowded,
		"watched":  watched,
	})
}

// testProgram returns the path of one of the programs of TestMain: a link to the test binary, which is the program of that name.
func testProgram(t *testing.T, name string) string {
	t.Helper()
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(test, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// testCommand returns one of the programs of TestMain as a process of its own.
func testCommand(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(testProgram(t, name), args...)
}

// quota OUT writes the profile of a program that was throttled by a CPU quota.
func quota() {
	const start, second = 1_795_234_224_000_000, 1_000_000
	w, err := writer.Create(os.Args[1], writer.Options{Start: start, Interval: 1000, Uncompressed: true})
	if err != nil {
		panic(err)
	}
	add := func(id uint64, interpreter uint32, at float64, s tachyon.Status, stack ...tachyon.Frame) {
		sample := tachyon.Sample{Thread: id, Interpreter: interpreter, Time: start + uint64(at*second), Status: s}
		if err := w.WriteFrames(&sample, stack); err != nil {
			panic(err)
		}
	}
	synthetic := func(name string) tachyon.Frame { return tachyon.Frame{Func: name} }
	main := tachyon.Frame{File: "/src/main.go", Func: "main.main", Line: 9}
	hash := tachyon.Frame{File: "/src/main.go", Func: "main.hash", Line: 20}
	lock := tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 3} // of object 3
	mark := tachyon.Frame{File: "/go/src/runtime/mgc.go", Func: "runtime.gcBgMarkWorker", Line: 1400}
	add(1, tachyon.User, 0, tachyon.HasGIL|tachyon.OnCPU, hash, main)
	add(1, tachyon.User, 0.6, tachyon.HasGIL|tachyon.OnCPU, hash, main)
	add(1, tachyon.User, 2, tachyon.HasGIL, hash, main)
	add(18, tachyon.User, 0, 0, lock, main)
	add(18, tachyon.User, 1.5, 0, lock, main)
	add(18, tachyon.User, 2, tachyon.GILRequested, synthetic(tachyon.FuncRunnable), hash, main)
	add(3, tachyon.Runtime, 0, 0, synthetic("[GC worker (idle)]"), mark)
	add(3, tachyon.Runtime, 1.9, 0, synthetic("[GC worker (idle)]"), mark)
	add(3, tachyon.Runtime, 2, tachyon.HasGIL|tachyon.OnCPU, mark)
	add(tachyon.FirstPseudo, tachyon.Process, 1.95, 0, synthetic(tachyon.FuncScheduler))
	add(tachyon.FirstPseudo, tachyon.Process, 2, tachyon.OnCPU, synthetic(tachyon.FuncScheduler))
	err = w.AddMetadata(tachyon.KindSession, tachyon.Session{
		Program: "/srv/app", GoVersion: "go1.26.8", GOOS: "linux", GOARCH: "amd64", GOMAXPROCS: 2, Host: "box", PID: 4711,
		Start: time.UnixMicro(start).UTC(), Duration: 2 * time.Second, Source: "native", Rate: 1000, RateReached: 400, Budget: 1,
		Markers: true, Error: "out.tach: no space left on device",
		Counts: tachyon.Counts{
			TicksAsked: 2000, TicksReached: 800, TicksForBudget: 900, TicksIdle: 250, Samples: 11, MaxGoroutines: 2,
			Cost: 15 * time.Millisecond, SignalTaken: 2, NotSeen: 250 * time.Millisecond, ProcessCPU: 760 * time.Millisecond,
			Throttled: 1300 * time.Millisecond, ThrottledPeriods: 18,
		},
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
}

// killed OUT is a program that writes a profile to OUT and kills itself.
func killed() {
	s := profiler.Start(profiler.Output(os.Args[1]))
	time.Sleep(100 * time.Millisecond)
	for begin := time.Now(); written(os.Args[1]) == 0 && time.Since(begin) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	if s.Err() != nil {
		os.Exit(1)
	}
	die()
}

// written returns the number of samples in an unfinished file, 0 if it does not say yet how sampling goes.
func written(path string) uint64 {
	r, err := reader.Open(path)
	if err != nil {
		return 0
	}
	defer r.Close()
	if m, err := r.Overview(); err != nil || m.Session == nil || m.Session.Duration == 0 {
		return 0
	}
	return r.Header().Samples
}

// die kills the process. os.Exit is different: with -race it takes a second, during which
// the session continues.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// rotates OUT is a program that writes a profile to three files and kills itself while it
// writes the third. Its environment may have further settings.
func rotates() {
	s := profiler.Start(profiler.Output(os.Args[1]), profiler.RotateEvery(time.Second))
	for begin := time.Now(); len(s.Files()) < 2 && time.Since(begin) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	if s.Err() != nil {
		os.Exit(1)
	}
	die()
}

// TestScripts runs scripts that check the command's output and exit codes. The variables
// $GOLDEN, $SPX and $DCPI are the folders of golden files of Tachyon, SPX and DCPI.
func TestScripts(t *testing.T) {
	golden, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			// gotach test builds with the caches that there are.
			env.Setenv("XDG_CACHE_HOME", cache)
			env.Setenv("GOCACHE", strings.Fields(string(caches))[0])
			env.Setenv("GOMODCACHE", strings.Fields(string(caches))[1])
			env.Setenv("GOLDEN", golden+"/../../testdata/tachyon")
			env.Setenv("SPX", golden+"/../../internal/formats/spx/testdata")
			env.Setenv("DCPI", golden+"/../../internal/formats/dcpi/testdata")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}

// code N COMMAND ARG... runs a command that must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%v exits with %d, want %d", args[1:], got, want)
	}
}
