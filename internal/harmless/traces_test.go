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

// moreThreads has, by source, how many threads a session adds at most.
var moreThreads = map[string]int{"native": 4, "portable": 2}

// TestHarmTraces runs a program with and without a session. It looks at the actions of all signals and at the
// number of threads. It compares the results with docs/harm.md, or writes them with -update.
func TestHarmTraces(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "traces")
	cmd := exec.Command("go", "build", "-o", bin, "./testdata/traces")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
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
	var signals, threads strings.Builder
	signals.WriteString("\n| session | signals with another action during it | after Stop |\n|---|---|---|\n")
	threads.WriteString("\n| source | threads that the runtime starts for a session |\n|---|---|\n")
	none := traced(t, bin, nil, "auto").Before
	for _, source := range []string{"native", "portable"} {
		env := []string{"PROFILE_SOURCE=" + source}
		out := filepath.Join(t.TempDir(), "x.tach")
		got := traced(t, bin, env, "start", out)
		fmt.Fprintf(&signals, "| %s | %s | %s |\n", source, differ(got.Before, got.During), differ(got.Before, got.After))

		// At any time the runtime may start one more thread for the program itself. So most of five
		// runs must keep the bound, and if they do not, most of five others.
		most, kept := moreThreads[source], false
		for try := 0; try < 3 && !kept; try++ {
			more := []int{got.With - got.Without}
			for len(more) < 5 {
				again := traced(t, bin, env, "start", out)
				more = append(more, again.With-again.Without)
			}
			slices.Sort(more)
			t.Logf("%s: %d more threads", source, more)
			kept = more[len(more)/2] <= most
		}
		if !kept {
			t.Errorf("%s: a session adds more than %d threads", source, most)
		}
		fmt.Fprintf(&threads, "| %s | %d at most |\n", source, most)

		got = traced(t, bin, append(env, "PROFILE_OUT="+out), "auto")
		fmt.Fprintf(&signals, "| %s, by package auto | %s | %s |\n", source, differ(none, got.During), differ(none, got.After))
	}
	signals.WriteByte('\n')
	threads.WriteByte('\n')
	written(t, "signals", signals.String())
	written(t, "threads", threads.String())
}
