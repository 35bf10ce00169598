package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		if code != 2 || !strings.Contains(out, "all goroutines are asleep - deadlock!") {
			t.Errorf("%s: a deadlock ends with %d:\n%s", tags, code, out)
		}
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
	if code != 0 || linked < 0 || writer < linked || auto < writer {
		t.Errorf("exit code %d; package linked is initialized at byte %d of the trace, writer at %d, auto at %d:\n%s", code, linked, writer, auto, trace)
	}
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
			if code != 0 || !strings.Contains(text, "hello") {
				t.Fatalf("exit code %d\n%s", code, text)
			}
			for name, want := range map[string]bool{"x.tach": tc.tach, "env.out": tc.env, "code.pb.gz": tc.code} {
				if fi, err := os.Stat(filepath.Join(dir, name)); (err == nil && fi.Size() > 0) != want {
					t.Errorf("%s is there: %v, want %v", name, err == nil, want)
				}
			}
			if n := strings.Count(text, "WARN"); strings.Contains(text, missing) != tc.warns || n > 1 {
				t.Errorf("%d warnings, want one that names the import: %v\n%s", n, tc.warns, text)
			}
		})
	}
}
