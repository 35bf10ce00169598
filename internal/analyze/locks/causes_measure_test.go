//go:build measure

package locks

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// Of the time that is given a cause, at least 95 % is right, for each kind of answer: TestCauses with new recordings.
func TestMeasureCauses(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "causes")
	build := exec.Command("go", "build", "-o", bin, "./causes")
	build.Dir, build.Env = "../../../bench/e2e/testdata/peers", append(os.Environ(), "GOWORK=off") // a module that is not in the workspace
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	measure.AtMost(t, "time with a wrong cause, of the kind of answer that has the most of it", "%", 5, func() float64 {
		all := map[string]*causeSums{}
		for kind := range causesPlanted {
			path := filepath.Join(dir, kind+".tach")
			if out, err := exec.Command(bin, kind, "2s", path).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			f := testenv.Must(reader.Open(path))
			sums := judgeCauses(t, f)
			for _, key := range slices.Sorted(maps.Keys(sums)) {
				t.Logf("%-10s %-60s %v", kind, key, sums[key])
			}
			addCauses(all, sums)
			testenv.OK(t, f.Close())
		}
		worst := 0.0
		for role, sum := range all {
			t.Logf("%-60s %v", role, sum)
			if given := sum.right + sum.wrong; given > 0 {
				worst = max(worst, 100*float64(sum.wrong)/float64(given))
			}
		}
		return worst
	})
}
