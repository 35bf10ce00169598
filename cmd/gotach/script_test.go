package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/cmd/gotach/internal/gotest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"

	"github.com/rogpeppe/go-internal/testscript"
)

// programs are what the test binary is if it is called by that name.
var programs = map[string]func(){"gotach": main, "killed": killed, "rotates": rotates}

func TestMain(m *testing.M) {
	must(os.Setenv("TZ", "UTC"))
	testscript.Main(seldom{m}, programs)
}

// seldom are the tests with few collections of garbage, of which they make much and keep little. Push sets no limit if there is a variable for it.
type seldom struct{ *testing.M }

// measures is set by the measurements. They need a small process: the most memory of a program that it starts is at least its own (getrusage(2)).
var measures bool

func (s seldom) Run() int {
	if !measures {
		debug.SetGCPercent(800)
		must(os.Setenv("GOMEMLIMIT", "off"))
	}
	return s.M.Run()
}

// testProgram returns the path of one of the programs of TestMain: a link to the test binary, which is the program of that name.
func testProgram(t *testing.T, name string) string {
	test := testenv.Must(os.Executable())
	path := filepath.Join(t.TempDir(), name)
	must(os.Symlink(test, path))
	return path
}

// testCommand returns one of the programs of TestMain as a process of its own.
func testCommand(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testProgram(t, name), args...)
	cmd.Env = append(os.Environ(), "GOGC=", "GOMEMLIMIT=") // as users have it
	return cmd
}

// killed OUT is a program that writes a profile to OUT and kills itself.
func killed() {
	s := profiler.Start(profiler.Output(os.Args[1]))
	testenv.Await(func() bool { return written(os.Args[1]) > 0 })
	if s.Err() != nil {
		os.Exit(1)
	}
	die()
}

// written returns the number of samples of the main goroutine in an unfinished file, 0 if it does not say yet how sampling goes.
func written(path string) (n int) {
	r, err := reader.Open(path)
	if err != nil {
		return 0
	}
	defer r.Close()
	if m, err := r.Overview(); err != nil || m.Session == nil || m.Session.Duration == 0 {
		return 0
	}
	for s := range r.Samples() {
		if s != nil && s.Thread == 1 {
			n++
		}
	}
	return n
}

// die kills the process. os.Exit is different: with -race it takes a second, during which
// the session continues.
func die() {
	self := testenv.Must(os.FindProcess(os.Getpid()))
	must(self.Kill())
	select {}
}

// rotates OUT is a program that writes a profile to three files and kills itself while it
// writes the third. Its environment may have further settings.
func rotates() {
	session.WrapSink = func(s sampler.Sink) sampler.Sink { return &threeFiles{s, 1} }
	s := profiler.Start(profiler.Output(os.Args[1]), func(c *session.Config) error { c.RotateEvery = 50 * time.Millisecond; return nil })
	third := strings.TrimSuffix(os.Args[1], ".tach") + ".3.tach"
	for len(s.Files()) < 2 || written(third) == 0 { // here and not in a function of another package, for its profile
		time.Sleep(10 * time.Millisecond)
	}
	if s.Err() != nil {
		os.Exit(1)
	}
	die()
}

// threeFiles is a sink that goes on with its third file, however late its program kills itself.
type threeFiles struct {
	sampler.Sink
	files int
}

func (f *threeFiles) Full() bool { return f.files < 3 && f.Sink.Full() }

func (f *threeFiles) Next(at time.Duration, cut func() sampler.Part) {
	f.Sink.Next(at, func() sampler.Part { f.files++; return cut() })
}

// concurrent are the scripts with commands that start goroutines for their work. push and demo have other tests.
var concurrent = []string{"convert", "many", "recover", "screen", "view"}

// TestScripts runs scripts that check the command's output and exit codes. The variables
// $GOLDEN, $SPX and $DCPI are the folders of golden files of Tachyon, SPX and DCPI.
// It changes the folder of the process, so no other test runs beside it.
func TestScripts(t *testing.T) { runScripts(t, true) }

// TestScriptsOfOne runs the other scripts. Their commands have one goroutine beside those that decode files, which the
// tests of package stream and the first scripts have too.
func TestScriptsOfOne(t *testing.T) {
	testenv.Again(t)
	runScripts(t, false)
}

func runScripts(t *testing.T, concurrently bool) {
	golden := testenv.Must(os.Getwd())
	cache := testenv.Must(os.UserCacheDir())
	caches := testenv.Must(exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output())
	commands := map[string]func(*testscript.TestScript, bool, []string){"code": code, "run": runs}
	for name, fill := range fixtures {
		commands[name] = fixtureCommand(fill)
	}
	var files []string
	for _, path := range testenv.Must(filepath.Glob(filepath.Join(golden, "testdata/script/*.txtar"))) {
		if slices.Contains(concurrent, strings.TrimSuffix(filepath.Base(path), ".txtar")) == concurrently {
			files = append(files, path)
		}
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
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
		Cmds: commands,
	})
}

// run gotach ARG... runs the command in this process. With exec it is a process of its own, with standard input and the script's variables.
func runs(ts *testscript.TestScript, neg bool, args []string) {
	if got := runHere(ts, args[1:]); (got != exitOK) != neg {
		ts.Fatalf("%q exits with %d", args, got)
	}
}

// here is held by the script whose folder is that of this process.
var here sync.Mutex

// runHere runs the command in the script's folder, as wide as the script says, and returns the exit code.
func runHere(ts *testscript.TestScript, args []string) int {
	here.Lock()
	defer here.Unlock()
	before := testenv.Must(os.Getwd())
	must(os.Chdir(ts.MkAbs(".")))
	defer func() { must(os.Chdir(before)) }()
	must(os.Setenv("COLUMNS", ts.Getenv("COLUMNS")))
	return run(args, strings.NewReader(""), ts.Stdout(), ts.Stderr())
}

// code N gotach ARG... and code N exec COMMAND ARG... run a command that must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N [exec] COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if args[1] != "exec" {
		got = runHere(ts, args[2:])
	} else if err := ts.Exec(args[2], args[3:]...); err != nil {
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

// The exit code of go test comes first, then a profile that is not there, then a comparison. It is made also if tests fail.
func TestTested(t *testing.T) {
	old, now := filepath.Join(t.TempDir(), "old.tach"), filepath.Join(t.TempDir(), "new.tach")
	writeFixture(old, differs, "0")
	writeFixture(now, differs, "50")
	passed, failed, none := gotest.Result{Packages: 1, Tests: 1}, gotest.Result{Code: 1, Packages: 1, Tests: 1}, fmt.Errorf("none: %w", gotest.ErrNone)
	for _, c := range []struct {
		res             gotest.Result
		err             error
		diff, failAbove string
		code            int
		out, errs       string
	}{
		{passed, nil, "", "", 0, "", "new.tach has 1 test of 1 package; next: "},
		{failed, nil, "", "", 1, "", "new.tach has 1 test of 1 package; next: "},
		{passed, nil, old, "", 0, "main.extra", "next: "},
		{passed, nil, old, "20%", 3, "main.extra", "which is above 20%"},
		{failed, nil, old, "20%", 1, "main.extra", "next: "},
		{gotest.Result{}, none, "", "", 0, "", "there is no profile: none"},
		{gotest.Result{}, none, old, "", 1, "", "there is no profile: none"},
		{gotest.Result{Code: 2}, none, old, "", 2, "", "there is no profile: none"},
		{gotest.Result{}, errors.New("the disk is full"), "", "", 1, "", "there is no profile: the disk is full"},
		{gotest.Result{Without: []string{"example.com/x: why"}}, nil, "", "", 0, "", "not in the profile: example.com/x: why"},
	} {
		var out, errs strings.Builder
		e := &env{ctx: t.Context(), started: true, stdout: &output{w: &out}, stderr: &output{w: &errs}}
		code := e.exit(tested(e, testFlags{now, c.diff, c.failAbove}, &c.res, c.err))
		testenv.Same(t, fmt.Sprintf("%+v: code", c), code, c.code)
		testenv.Has(t, "standard error", errs.String(), c.errs)
		testenv.FailIf(t, !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0, "%+v:\n%s", c, &out)
	}
}
