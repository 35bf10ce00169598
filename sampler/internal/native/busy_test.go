//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// waited returns how long each of this process's threads has run and how long it
// has waited for a core, in ns (/proc/pid/task/tid/schedstat).
func waited() map[string][2]float64 {
	all := map[string][2]float64{}
	tasks, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, name := range tasks {
		var ran, wait float64
		if b, err := os.ReadFile(name); err == nil {
			fmt.Sscan(string(b), &ran, &wait)
			all[name] = [2]float64{ran, wait}
		}
	}
	return all
}

// waitShare returns how long threads have waited, as a share of how long they ran.
func waitShare(before, after map[string][2]float64) float64 {
	ran, wait := 0.0, 0.0
	for name, t := range after {
		ran += t[0] - before[name][0]
		wait += t[1] - before[name][1]
	}
	return wait / ran
}

// onQuietMachine runs a comparison of sampled with true times, up to three times.
// Where other programs take the cores the clock goes on while threads wait, and what
// there is to compare differs; then the test says so and is skipped.
func onQuietMachine(t *testing.T, compare func() []string) {
	t.Helper()
	for range 3 {
		before := waited()
		wrong := compare()
		busy := waitShare(before, waited())
		if len(wrong) == 0 {
			return
		}
		if busy < 0.03 {
			for _, text := range wrong {
				t.Error(text)
			}
			return
		}
		t.Logf("threads waited %.0f %% of the time they ran: %v", 100*busy, wrong)
	}
	t.Skip("the machine is too busy to compare times")
}
