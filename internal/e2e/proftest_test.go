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

// Several packages of a go test have one PROFILE_OUT: each has a file, whether they run at once or one after the other.
func TestProftestTogether(t *testing.T) {
	dir := module(t, "hook_test.go.txt", "hook_test.go")
	src, err := os.ReadFile(filepath.Join(dir, "hook_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	packages := []string{"a/same", "b/same", "c/other"}
	for _, p := range packages {
		path := filepath.Join(dir, p)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.WriteFile(filepath.Join(path, "hook_test.go"), src, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, parallel := range []string{"-p=1", "-p=3"} {
		out := t.TempDir()
		for range 2 { // the second time, a package that writes to the same file as before replaces it
			cmd := exec.Command("go", "test", "-count=1", "-v", parallel, "-run=TestPass", "./a/...", "./b/...", "./c/...")
			cmd.Dir = dir
			cmd.Env = append(append(os.Environ(), moduleEnv...), "PROFILE_OUT="+filepath.Join(out, "x.tach"))
			text, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if n := strings.Count(string(text), "has the profile of another package"); n != 2 {
				t.Errorf("%s: %d warnings, want 2\n%s", parallel, n, text)
			}
			files := map[string]bool{} // executables
			names, _ := filepath.Glob(filepath.Join(out, "*.tach"))
			for _, name := range names {
				r, err := reader.Open(name)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				m, err := r.Overview()
				if err != nil || r.Unfinished() {
					t.Errorf("%s: %v", name, err)
				} else {
					files[m.Session.Executable] = true
				}
			}
			if len(files) < len(packages) {
				t.Errorf("%s: files %v have the profiles of %d packages, want %d\n%s", parallel, names, len(files), len(packages), text)
			}
		}
	}
}
