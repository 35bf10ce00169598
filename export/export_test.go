package export_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler"
	_ "github.com/gotach/profiler/export"
)

// With the import, a session writes its exports at Stop. A failed export does not prevent
// the others. The variable overrides the options.
func TestExport(t *testing.T) {
	dir := t.TempDir()
	record := func() error {
		return profiler.Start(profiler.Output(filepath.Join(dir, "x.tach")),
			profiler.Export("collapsed", filepath.Join(dir, "no", "x.txt")), profiler.Export("pprof", filepath.Join(dir, "x.pb.gz"))).Stop()
	}
	written := func(name string) {
		t.Helper()
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := record(); err == nil || !strings.Contains(err.Error(), "export to collapsed") {
		t.Errorf("Stop returns %v", err)
	}
	written("x.pb.gz")
	t.Setenv("PROFILE_EXPORT", "nytprof="+filepath.Join(dir, "%e.nytprof"))
	if err := record(); err != nil {
		t.Error(err)
	}
	written("export.test.nytprof")
}

// Write a profile for go tool pprof beside gotach's own file.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	defer profiler.Start(
		profiler.Output(filepath.Join(dir, "app.tach")),
		profiler.Export("pprof", filepath.Join(dir, "app.pb.gz")),
	).Stop()
}
