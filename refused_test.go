//go:build linux && (amd64 || arm64)

package profiler

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

type nowhere struct{ sampler.OnePart }

func (nowhere) Intern(tachyon.Frame) uint32                { return 0 }
func (nowhere) WriteBatch(l []tachyon.Sample) (int, error) { return len(l), nil }
func (nowhere) WriteRecords(*tachyon.Records) error        { return nil }
func (nowhere) Forget(uint64, uint32) error                { return nil }

// A session whose source cannot start leaves no file, unless the file existed before.
func TestRefused(t *testing.T) {
	t.Setenv("PROFILE_SOURCE", "native")
	other := testenv.Must(sampler.Start(sampler.Config{Source: sampler.Native}, nowhere{})) // prevents a second one
	defer other.Stop()
	file := func(name string) func(dir string) error {
		return func(dir string) error {
			return os.WriteFile(filepath.Join(dir, name), append([]byte("HCAT"), make([]byte, 100)...), 0o600)
		}
	}
	link := func(dir string) error { return os.Symlink("y.tach", filepath.Join(dir, "x.tach")) }
	for name, c := range map[string]struct {
		before func(dir string) error
		opts   []Option
		left   string
	}{
		"no file":                {before: func(string) error { return nil }},
		"empty file":             {before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "x.tach"), nil, 0o600) }},
		"a file":                 {before: file("x.tach"), left: "x.tach"},
		"link to nothing":        {before: link, left: "x.tach"},
		"link to a file":         {before: func(dir string) error { return errors.Join(file("y.tach")(dir), link(dir)) }, left: "x.tach y.tach"},
		"rotation":               {before: func(string) error { return nil }, opts: []Option{RotateBytes(1 << 30)}},
		"rotation beside a file": {before: file("x.1.tach"), opts: []Option{RotateBytes(1 << 30)}, left: "x.1.tach"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.tach")
			testenv.OK(t, c.before(dir))
			s, err := Open(append(c.opts, Output(path))...)
			if err == nil {
				s.Stop()
				t.Fatal("a second native source runs")
			}
			testenv.Same(t, "left", strings.Join(testenv.Must(fs.Glob(os.DirFS(dir), "*")), " "), c.left)
			if !strings.Contains(c.left, "x.tach") || name == "link to nothing" {
				return
			}
			// The contents of the file are lost. Its metadata have the reason.
			said := testenv.Metadata(t, reader.Open, path).Session.Error
			testenv.Same(t, "an error is in the file", said != "", true)
			testenv.Fails(t, "Open", err, said)
		})
	}
}
