package testenv

// Some tests need things that not every machine has: the programs of other projects
// that gotach is compared with, and the right to mount a small disk. These tests ask
// here. If the thing is missing the test is skipped; with GOTACH_REQUIRE_PEERS=1, as
// in CI, it fails.

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
	Missing(t, "CPython 3.15", "get it with internal/testenv/python315.sh")
	return ""
}

// Command returns the path of a program on PATH. install is the command that installs
// it, for the message if it is missing.
func Command(t testing.TB, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, "get it with "+install)
	}
	return path
}

// Missing skips a test that needs what, or fails it with GOTACH_REQUIRE_PEERS=1. why
// gives the reason, or how to get what.
func Missing(t testing.TB, what, why string) {
	t.Helper()
	if os.Getenv("GOTACH_REQUIRE_PEERS") == "1" {
		t.Fatalf("%s is required and missing: %s", what, why)
	}
	t.Skipf("no %s here: %s", what, why)
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
