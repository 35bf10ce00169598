package testenv

// Some tests need things that not every machine has: the programs of other projects
// that gotach is compared with, and the right to mount a small disk. These tests have
// the build tag peers, and ask here.

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Python315 returns the command of a CPython 3.15, the reference reader of
// Tachyon files. It takes the first one that works of $GOTACH_PYTHON315, the one
// that python315.sh unpacked, and python3.15 from PATH.
func Python315(t testing.TB) string {
	t.Helper()
	var candidates []string
	if p := os.Getenv("GOTACH_PYTHON315"); p != "" {
		candidates = append(candidates, p)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		candidates = append(candidates, filepath.Join(cache, "gotach-peers", "python3.15", "python3.15"))
	}
	candidates = append(candidates, "python3.15")
	for _, c := range candidates {
		if path, err := exec.LookPath(c); err == nil &&
			exec.Command(path, "-c", "import _remote_debugging, profiling.sampling").Run() == nil {
			return path
		}
	}
	Skip(t, "no CPython 3.15: get it with internal/testenv/python315.sh")
	return ""
}

// Command returns the path of a program on PATH. install is the command that installs
// it, for the message if it is missing.
func Command(t testing.TB, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(t, "no "+name+": get it with "+install)
	}
	return path
}

// Skip skips a test that this machine cannot run. Every skip goes through this package. With
// GOTACH_REQUIRE_PEERS=1, as in the steps of .ci/run, whose machine has all that tests need, the
// test fails instead.
func Skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("GOTACH_REQUIRE_PEERS") == "1" {
		t.Fatal("required and missing: " + why)
	}
	t.Skip(why)
}

// Night skips a peer test that only the step night of .ci/run runs, because it takes long or its
// peer is large. why gives the reason.
func Night(t testing.TB, why string) {
	t.Helper()
	if !night() {
		t.Skip("only with GOTACH_NIGHT=1: " + why)
	}
}

func night() bool { return os.Getenv("GOTACH_NIGHT") == "1" }

// Long skips a test that takes seconds if the flag -short is set.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes seconds: not with -short")
	}
}

// Times returns how often or how long a test does what it does: few times, or long in the step
// night of .ci/run, which sets GOTACH_NIGHT=1.
func Times[N int | time.Duration](few, long N) N {
	if night() {
		return long
	}
	return few
}

// Brief returns how often a test does what it does with -short: few times, and else all.
func Brief(few, all int) int {
	if testing.Short() {
		return few
	}
	return all
}

// Emulated reports whether the tests run under an emulator of another processor, as in the step
// arm64 of CI.
func Emulated() bool { return os.Getenv("GOTACH_EMULATOR") != "" }

// NotEmulated skips a test that cannot run under an emulator. why gives the reason. Elsewhere the
// test always runs.
func NotEmulated(t testing.TB, why string) {
	t.Helper()
	if Emulated() {
		t.Skip("not under an emulator: " + why)
	}
}

// Again skips a long test under the race detector if it would only repeat what it does without it:
// its programs are built without the detector, or it has one goroutine.
func Again(t testing.TB) {
	t.Helper()
	if raceBuild {
		t.Skip("it does the same without the race detector")
	}
}
