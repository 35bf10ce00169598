package e2e

import (
	"errors"
	"os"
	"os/exec"
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
	src := testenv.Must(os.ReadFile(filepath.Join(dir, "hook_test.go")))
	for _, p := range []string{"a", "b"} {
		path := filepath.Join(dir, p, "same")
		testenv.OK(t, errors.Join(os.MkdirAll(path, 0o755), os.WriteFile(filepath.Join(path, "hook_test.go"), src, 0o600)))
	}
	text := run(t, dir, append(moduleEnv, "PROFILE_OUT="+filepath.Join(out, "x.tach"), "GOTMPDIR="+work),
		"go", "test", "-work", "-count=1", "-vet=off", "-v", "-p=1", "-run=TestPass", "./a/...", "./b/...")
	if n := strings.Count(text, "has the profile of another package"); n != 1 {
		t.Errorf("%d warnings, want 1\n%s", n, text)
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
		t.Errorf("files %v have the profiles of %d packages, want 2\n%s", names, len(programs), text)
	}
	testenv.OK(t, os.Rename(testenv.Must(filepath.Glob(filepath.Join(work, "*", "b*", "same.test")))[0], filepath.Join(dir, "hook.test")))
	tests := func(pattern, out string) (int, string) {
		cmd := exec.Command(filepath.Join(dir, "hook.test"), "-test.run=^"+pattern+"$")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PROFILE_OUT="+out)
		text, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
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
			code, text := tests(tc.pattern, "x.tach") // relative to the package's directory
			if code != tc.code {
				t.Errorf("exit code %d, without a profile %d:\n%s", code, tc.code, text)
			}
			r, err := reader.Open(filepath.Join(dir, "x.tach"))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			defer r.Close()
			if r.Unfinished() == tc.finished {
				t.Errorf("finished is %v, want %v", !tc.finished, tc.finished)
			}
			found := tc.pattern == "TestNone" || !tc.finished
			for s, err := range r.Samples() {
				testenv.OK(t, err)
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
	if code, text := tests("TestNone", ""); code != 0 {
		t.Errorf("exit code %d without a profile:\n%s", code, text)
	}
	if after, _ := filepath.Glob(filepath.Join(dir, "*")); len(after) != len(before) {
		t.Errorf("created %v without PROFILE_OUT", after)
	}
}
