package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/reader"
)

// The hook finishes the file and does not change the exit code of go test.
func TestProftest(t *testing.T) {
	dir := module(t, "hook_test.go.txt", "hook_test.go")
	goTest := func(pattern, out string) (int, string) {
		cmd := exec.Command("go", "test", "-count=1", "-run", pattern, ".")
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), moduleEnv...), "PROFILE_OUT="+out)
		text, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	for _, tc := range []struct {
		pattern  string
		finished bool
	}{
		{"TestPass", true},
		{"TestFail", true},
		{"TestNone", true},
		{"TestExit", false}, // os.Exit does not run Stop, but the file has the samples
	} {
		t.Run(tc.pattern, func(t *testing.T) {
			out := filepath.Join(dir, tc.pattern+".tach")
			plain, _ := goTest("^"+tc.pattern+"$", "")
			code, text := goTest("^"+tc.pattern+"$", tc.pattern+".tach") // relative to the package's directory
			if code != plain {
				t.Errorf("exit code %d, without a profile %d:\n%s", code, plain, text)
			}
			r, err := reader.Open(out)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			defer r.Close()
			if r.Unfinished() == tc.finished {
				t.Errorf("finished is %v, want %v", !tc.finished, tc.finished)
			}
			if !tc.finished {
				return // the unfinished file can be read
			}
			var found bool
			for s, err := range r.Samples() {
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range s.Stack {
					found = found || strings.HasSuffix(r.Frames()[id].Func, "."+tc.pattern)
				}
			}
			if !found && tc.pattern != "TestNone" {
				t.Errorf("no sample of %s", tc.pattern)
			}
		})
	}
	// Without PROFILE_OUT there is no file.
	before, _ := filepath.Glob(filepath.Join(dir, "*.tach"))
	goTest("TestPass", "")
	if after, _ := filepath.Glob(filepath.Join(dir, "*.tach")); len(after) != len(before) {
		t.Errorf("created %v without PROFILE_OUT", after)
	}
}
