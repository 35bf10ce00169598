//go:build linux && (amd64 || arm64)

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSystemCalls runs sessions under a policy that allows only the system calls that package syscalls
// lists. It also checks that the policy has an effect: without one of them the program ends.
func TestSystemCalls(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "syscalls")
	build := exec.Command("go", "build", "-o", bin, "./testdata/syscalls")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, source := range []string{"native", "portable"} {
		env := []string{"PROFILE_SOURCE=" + source, "PROFILE_SYNC=100ms", "PROFILE_OUT=" + filepath.Join(t.TempDir(), "x.tach")}
		if text, code := runFor(t, time.Minute, env, bin, source, ""); code != 0 || !strings.HasSuffix(text, "ok\n") {
			t.Errorf("%s: exit code %d\n%.3000s", source, code, text)
		}
		if text, code := runFor(t, time.Minute, env, bin, source, "clock_gettime"); code != 2 || !strings.Contains(text, "SIGSYS") {
			t.Errorf("%s without clock_gettime: exit code %d\n%.3000s", source, code, text)
		}
	}
}
