//go:build linux && (amd64 || arm64)

package e2e

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// TestSystemCalls runs sessions under a policy that allows only the system calls that package syscalls
// lists. It also checks that the policy has an effect: without one of them the program ends.
func TestSystemCalls(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	bin := buildProgram(t, "syscalls")
	var all sync.WaitGroup
	defer all.Wait()
	for _, source := range []string{"native", "portable"} {
		for _, without := range []string{"", "clock_gettime"} {
			env := []string{"PROFILE_SOURCE=" + source, "PROFILE_SYNC=100ms", "PROFILE_OUT=" + filepath.Join(t.TempDir(), "x.tach")}
			all.Go(func() {
				text, code := ends(t, "", env, bin, source, without)
				if without == "" && (code != 0 || !strings.HasSuffix(text, "ok\n")) || without != "" && (code != 2 || !strings.Contains(text, "SIGSYS")) {
					t.Errorf("%s without %q: exit code %d\n%.3000s", source, without, code, text)
				}
			})
		}
	}
}
