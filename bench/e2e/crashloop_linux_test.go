package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

func init() {
	programs["GOTACH_TEST_LOOP"] = func() {
		s := profiler.Start(profiler.Source(profiler.Portable), profiler.Budget(100))
		for s.Err() == nil {
			time.Sleep(time.Millisecond)
			if s.Stats().Samples > 0 {
				_, _ = os.Stdout.WriteString("x")
			}
		}
	}
}

// A program is killed and starts again, many times. At most three unfinished files and the last one are left, with and without
// rotation, and all of them can be recovered. The first run is among them.
func TestCrashLoop(t *testing.T) {
	testenv.Long(t)
	for _, rotate := range []string{"", "1h"} {
		dir := t.TempDir()
		out := filepath.Join(dir, "app.tach")
		for n := range testenv.Times(12, 100) {
			cmd := again(t, "GOTACH_TEST_LOOP=1", "PROFILE_OUT="+out, "PROFILE_ROTATE="+rotate)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			r, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 || n%3 > 0 { // at least the first one has samples
				b := make([]byte, 1)
				_, _ = r.Read(b)
			}
			time.Sleep(rand.N(60 * time.Millisecond))
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if said := stderr.String(); strings.Contains(said, "WARN") {
				t.Fatal(said)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.tach"))
		if err != nil || len(files) == 0 || len(files) > 5 {
			t.Fatalf("%q, %v", files, err)
		}
		most := 0
		for _, path := range files {
			if _, err := recovery.Finish(path); err != nil {
				t.Error(err)
			}
			if n := testenv.Count(t, reader.Open, path); strings.HasSuffix(path, "app.1.tach") {
				most = n
			}
		}
		if most == 0 {
			t.Errorf("rotation %q: the first run is not among %q", rotate, files)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > len(files)+5 { // journals of programs that were killed before they made the file
			t.Error(fmt.Sprint(left, err))
		}
	}
}
