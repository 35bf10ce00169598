package export_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler"
	_ "github.com/gotach/profiler/export"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
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
		testenv.FailIf(t, testenv.Must(os.Stat(filepath.Join(dir, name))).Size() == 0, "%s is empty", name)
	}
	testenv.Fails(t, "Stop", record(), "export to collapsed")
	written("x.pb.gz")
	t.Setenv("PROFILE_EXPORT", "nytprof="+filepath.Join(dir, "%e.nytprof"))
	testenv.OK(t, record())
	written("export.test.nytprof")
}

// An export does not replace the profile, its journal, a file of a rotation or another export, by any name. It is left out with
// a warning, and the other exports are written.
func TestExportOverProfile(t *testing.T) {
	t.Setenv("PROFILE_SOURCE", "portable")
	dir := t.TempDir()
	sub, link := dir+"/link/../x.tach", filepath.Join(dir, "other.tach")
	testenv.OK(t, errors.Join(os.Symlink(dir, filepath.Join(dir, "here")), os.Symlink("x.tach", link), os.Mkdir(filepath.Join(dir, "link"), 0o700)))
	for _, rotate := range []string{"", "1h"} {
		for _, path := range []string{
			filepath.Join(dir, "x.tach"), sub, link, filepath.Join(dir, "here", "x.tach"), filepath.Join(dir, "x.tach.journal"),
			filepath.Join(dir, "x.2.tach"), filepath.Join(dir, "x.77.tach.journal"), filepath.Join(dir, "x.txt"),
		} {
			log := &testenv.Log{}
			t.Setenv("PROFILE_OUT", filepath.Join(dir, "x.tach"))
			t.Setenv("PROFILE_ROTATE", rotate)
			t.Setenv("PROFILE_EXPORT", "collapsed="+filepath.Join(dir, "x.txt")+",pprof="+path)
			s := profiler.Start(profiler.Logger(log.Logger()))
			testenv.OK(t, s.Stop())
			l := log.Lines()
			testenv.FailIf(t, len(l) != 1 || !strings.Contains(l[0], "an export is left out") || !strings.Contains(l[0], "format=pprof"), "%s: logged %q", path, l)
			r, err := reader.Open(s.Path())
			testenv.StopIf(t, err != nil || r.Unfinished(), "%s: the profile is lost: %v", path, err)
			r.Close()
		}
	}
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
