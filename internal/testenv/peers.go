package testenv

// Tests need what not every machine has: the programs of other projects that gotach
// is compared with, and the right to mount a disk that is soon full. A test that
// needs one asks here. Where it is missing the test is skipped; with
// GOTACH_REQUIRE_PEERS=1, as in CI, it fails.

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Python315 returns the command of a CPython 3.15, the reference reader of
// Tachyon files: $GOTACH_PYTHON315, what python315.sh unpacked, or python3.15
// from PATH, whichever is first.
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

// Command returns the path of a program on PATH; install says how one gets it.
func Command(t testing.TB, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, "get it with "+install)
	}
	return path
}

// Missing ends a test that cannot run for want of what; why says more, or how one
// gets it.
func Missing(t testing.TB, what, why string) {
	t.Helper()
	if os.Getenv("GOTACH_REQUIRE_PEERS") == "1" {
		t.Fatalf("%s is required here and missing: %s", what, why)
	}
	t.Skipf("no %s here: %s", what, why)
}
