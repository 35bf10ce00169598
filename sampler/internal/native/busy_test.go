//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// waited returns how long this process's threads have run and how long they have
// waited for a core, in ns (/proc/pid/task/tid/schedstat).
func waited() (ran, wait float64) {
	tasks, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, name := range tasks {
		var r, w float64
		if b, err := os.ReadFile(name); err == nil {
			fmt.Sscan(string(b), &r, &w)
			ran += r
			wait += w
		}
	}
	return ran, wait
}

// onQuietMachine runs a comparison of sampled with true times, up to three times.
// Where other programs take the cores the clock goes on while threads wait, and what
// there is to compare differs; then the test says so and is skipped.
func onQuietMachine(t *testing.T, compare func() []string) {
	t.Helper()
	for range 3 {
		r0, w0 := waited()
		wrong := compare()
		r1, w1 := waited()
		if len(wrong) == 0 {
			return
		}
		if busy := (w1 - w0) / (r1 - r0); busy < 0.03 {
			for _, text := range wrong {
				t.Error(text)
			}
			return
		} else {
			t.Logf("threads waited %.0f %% of the time they ran: %v", 100*busy, wrong)
		}
	}
	t.Skip("the machine is too busy to compare times")
}
