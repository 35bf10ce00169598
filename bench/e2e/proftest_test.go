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
	if text, code := tests("TestPass", shared); code != 0 || strings.Count(text, "has the profile of another package") != 1 {
		t.Errorf("exit code %d, want one warning\n%s", code, text)
	}
	programs := map[string]bool{}
	names, _ := filepath.Glob(filepath.Join(out, "*.tach"))
	for _, name := range names {
		m, unfinished := metadata(t, name)
		if unfinished {
			t.Errorf("%s is unfinished", name)
		}
		programs[m.Session.Executable] = true
	}
	if len(names) != 2 || len(programs) != 2 {
		t.Errorf("files %v have the profiles of %d packages, want 2", names, len(programs))
	}
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
			r, err := reader.Open(filepath.Join(dir, "x.tach"))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			defer r.Close()
			if r.Unfinished() == tc.finished {
				t.Errorf("finished is %v, want %v", !tc.finished, tc.finished)
			}
			found := tc.pattern == "TestNone" || !tc.finished
			for s := range testenv.All(t, r.Samples()) {
				for _, id := range s.Stack {
					found = found || strings.HasSuffix(r.Frames()[id].Func, "."+tc.pattern)
				}
			}
			if !found {
				t.Errorf("no sample of %s", tc.pattern)
			}
		})
	}
	// Without PROFILE_OUT there is no file.
	before, _ := filepath.Glob(filepath.Join(dir, "*"))
	if text, code := tests("TestNone", ""); code != 0 {
		t.Errorf("exit code %d without a profile:\n%s", code, text)
	}
	if after, _ := filepath.Glob(filepath.Join(dir, "*")); len(after) != len(before) {
		t.Errorf("created %v without PROFILE_OUT", after)
	}
}
