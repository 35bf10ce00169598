package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// hello builds the program in testdata/hello with some flags.
func hello(t *testing.T, flags ...string) (bin string) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), "hello")
	testenv.OK(t, testenv.Build(bin, "./testdata/hello", nil, flags...))
	return bin
}

// A program that imports the profiler stays static, because no package needs cgo (TestImports). The runtime still finds its deadlocks.
func TestStatic(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, tags := range []string{"profiled,code", "auto"} {
		out, code := ends(t, "", nil, hello(t, "-tags="+tags), "deadlock")
		testenv.FailIf(t, code != 2 || !strings.Contains(out, "all goroutines are asleep - deadlock!"), "%s: a deadlock ends with %d:\n%s", tags, code, out)
	}
}

// Package linked is initialized before the packages that the root needs, so long before package auto. Package
// export, in this program, is initialized before auto only by chance.
func TestExportLinkedEarly(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	trace, code := ends(t, "", []string{"GODEBUG=inittrace=1"}, hello(t, "-tags=auto,export"), "auto")
	const module = "init github.com/gotach/profiler"
	linked, writer, auto := strings.Index(trace, module+"/internal/hook/linked @"), strings.Index(trace, module+"/writer @"), strings.Index(trace, module+"/auto @")
	testenv.Same(t, "exit code", code, 0)
	testenv.FailIf(t, linked < 0 || writer < linked || auto < writer, "linked is initialized at byte %d, writer at %d, auto at %d:\n%s", linked, writer, auto, trace)
}

// Exports work if package export is imported. Otherwise they cause one warning that names the package,
// and the rest of the profile is the same. PROFILE_EXPORT replaces the exports in the code. Package auto
// starts its session before package export is initialized.
func TestExportLinked(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	const missing, exported = "github.com/gotach/profiler/export", "nytprof=env.out"
	for _, tc := range []struct {
		tags, how string
		variable  string // PROFILE_EXPORT
		// Which files there are, and whether a warning names the import.
		tach, env, code, warns bool
	}{
		{"profiled,code", "profiled", exported, true, false, false, true},
		{"profiled,code", "code", exported, false, false, false, true},
		{"auto", "auto", exported, true, false, false, true},
		{"profiled,code,export", "profiled", exported, true, true, false, false},
		{"profiled,code,export", "code", exported, true, true, false, false},
		{"profiled,code,export", "code", "", true, false, true, false},
		{"auto,export", "auto", exported, true, true, false, false},
	} {
		t.Run(tc.tags+" "+tc.how+" "+tc.variable, func(t *testing.T) {
			dir := t.TempDir()
			text, code := ends(t, dir, []string{"PROFILE_OUT=x.tach", "PROFILE_SOURCE=portable", "PROFILE_EXPORT=" + tc.variable}, hello(t, "-tags="+tc.tags), tc.how)
			testenv.FailIf(t, code != 0 || !strings.Contains(text, "hello"), "exit code %d\n%s", code, text)
			for name, want := range map[string]bool{"x.tach": tc.tach, "env.out": tc.env, "code.pb.gz": tc.code} {
				fi, err := os.Stat(filepath.Join(dir, name))
				testenv.FailIf(t, (err == nil && fi.Size() > 0) != want, "%s is there: %v, want %v", name, err == nil, want)
			}
			n := strings.Count(text, "WARN")
			testenv.FailIf(t, strings.Contains(text, missing) != tc.warns || n > 1, "%d warnings, want one that names the import: %v\n%s", n, tc.warns, text)
		})
	}
}

// Two packages of a go test have one PROFILE_OUT: each has a file, also if the first has ended before the second begins. The hook
// finishes the file and does not change the exit code of the tests.
func TestProftest(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir, out, work := module(t, "hook_test.go.txt", "hook_test.go"), t.TempDir(), t.TempDir()
	program := ""
	tests := func(pattern, out string) (string, int) {
		return ends(t, dir, []string{"PROFILE_OUT=" + out}, program, "-test.run=^"+pattern+"$")
	}
	shared := filepath.Join(out, "x.tach")
	run(t, dir, append(moduleEnv, "PROFILE_OUT="+shared, "GOTMPDIR="+work), "go", "test", "-work", "-count=1", "-vet=off", "-run=TestPass", ".")
	built := testenv.Must(filepath.Glob(filepath.Join(work, "*", "b*", "program.test")))[0]
	program = filepath.Join(filepath.Dir(filepath.Dir(built)), "other", "program.test") // as that of another package
	testenv.OK(t, errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.Rename(built, program)))
	text, code := tests("TestPass", shared)
	testenv.FailIf(t, code != 0 || strings.Count(text, "has the profile of another package") != 1, "exit code %d, want one warning\n%s", code, text)
	programs := map[string]bool{}
	names, _ := filepath.Glob(filepath.Join(out, "*.tach"))
	for _, name := range names {
		m, unfinished := metadata(t, name)
		testenv.FailIf(t, unfinished, "%s is unfinished", name)
		programs[m.Session.Executable] = true
	}
	testenv.FailIf(t, len(names) != 2 || len(programs) != 2, "files %v have the profiles of %d packages, want 2", names, len(programs))
	testenv.OK(t, os.Rename(program, filepath.Join(dir, "hook.test")))
	program = filepath.Join(dir, "hook.test")
	for _, tc := range []struct {
		pattern  string
		code     int
		finished bool
	}{
		{"TestPass", 0, true},
		{"TestFail", 1, true},
		{"TestNone", 0, true},  // replaces the file of the test before it
		{"TestExit", 5, false}, // os.Exit does not run Stop, but the file has the samples
	} {
		t.Run(tc.pattern, func(t *testing.T) {
			text, code := tests(tc.pattern, "x.tach") // relative to the package's directory
			testenv.Same(t, "exit code, with "+text, code, tc.code)
			r := testenv.Closes(t, testenv.Must(reader.Open(filepath.Join(dir, "x.tach"))))
			testenv.FailIf(t, r.Unfinished() == tc.finished, "finished is %v, want %v", !tc.finished, tc.finished)
			found := tc.pattern == "TestNone" || !tc.finished
			for s := range testenv.All(t, r.Samples()) {
				for _, id := range s.Stack {
					found = found || strings.HasSuffix(r.Frames()[id].Func, "."+tc.pattern)
				}
			}
			testenv.FailIf(t, !found, "no sample of %s", tc.pattern)
		})
	}
	// Without PROFILE_OUT there is no file.
	before, _ := filepath.Glob(filepath.Join(dir, "*"))
	text, code = tests("TestNone", "")
	testenv.Same(t, text+": exit code without a profile", code, 0)
	after, _ := filepath.Glob(filepath.Join(dir, "*"))
	testenv.FailIf(t, len(after) != len(before), "created %v without PROFILE_OUT", after)
}
