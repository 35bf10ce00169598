//go:build linux && (amd64 || arm64)

package harmless

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
)

// traces is what the program testdata/traces prints.
type traces struct {
	Before, During, After [64][4]uint64
	Without, With         int // threads
}

// traced runs the program testdata/traces.
func traced(t *testing.T, bin string, env []string, args ...string) (got traces) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Env = slices.Concat(environ(), env, []string{"GOMAXPROCS=2"})
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return got
}

// buildTraces builds the program testdata/traces.
func buildTraces(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "traces")
	cmd := exec.Command("go", "build", "-o", bin, "./testdata/traces")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return bin
}

// TestHarmSignals looks at the actions of all signals before, during and after a session. It compares them with docs/harm.md,
// or writes them with -update.
func TestHarmSignals(t *testing.T) {
	testenv.Long(t)
	bin := buildTraces(t)
	differ := func(a, b [64][4]uint64) string {
		var names []string
		for i := range a {
			if a[i] != b[i] {
				names = append(names, unix.SignalName(syscall.Signal(i+1)))
			}
		}
		if names == nil {
			return "none"
		}
		return strings.Join(names, ", ")
	}
	var b strings.Builder
	b.WriteString("\n| session | signals with another action during it | after Stop |\n|---|---|---|\n")
	none := traced(t, bin, nil, "auto").Before
	for _, source := range []string{"native", "portable"} {
		env, out := []string{"PROFILE_SOURCE=" + source}, filepath.Join(t.TempDir(), "x.tach")
		got := traced(t, bin, env, "start", out)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", source, differ(got.Before, got.During), differ(got.Before, got.After))
		got = traced(t, bin, append(env, "PROFILE_OUT="+out), "auto")
		fmt.Fprintf(&b, "| %s, by package auto | %s | %s |\n", source, differ(none, got.During), differ(none, got.After))
	}
	b.WriteByte('\n')
	written(t, "signals", b.String())
}
