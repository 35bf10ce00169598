//go:build linux && (amd64 || arm64)

package profiler

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/reader"
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
	other, err := sampler.Start(sampler.Config{Source: sampler.Native}, nowhere{}) // prevents a second one
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		before func(dir, path string) error
		opts   []Option
		left   string
	}{
		"no file": {},
		"empty file": {before: func(_, path string) error {
			return os.WriteFile(path, nil, 0o600)
		}},
		"a file": {before: func(_, path string) error {
			return os.WriteFile(path, []byte("another profile"), 0o600)
		}, left: "x.tach"},
		"link to nothing": {before: func(_, path string) error {
			return os.Symlink("y.tach", path)
		}, left: "x.tach"},
		"link to a file": {before: func(dir, path string) error {
			if err := os.WriteFile(filepath.Join(dir, "y.tach"), []byte("another profile"), 0o600); err != nil {
				return err
			}
			return os.Symlink("y.tach", path)
		}, left: "x.tach y.tach"},
		"rotation": {opts: []Option{RotateAt(1 << 30)}},
		"rotation beside a file": {before: func(dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, "x.1.tach"), []byte("another profile"), 0o600)
		}, opts: []Option{RotateAt(1 << 30)}, left: "x.1.tach"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.tach")
			if c.before != nil {
				if err := c.before(dir, path); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(append(c.opts, Output(path))...)
			if err == nil {
				s.Stop()
				t.Fatal("a second native source runs")
			}
			var left []string
			files, e := fs.ReadDir(os.DirFS(dir), ".")
			if e != nil {
				t.Fatal(e)
			}
			for _, f := range files {
				left = append(left, f.Name())
			}
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("%q is left, not %q", got, c.left)
			}
			if !strings.Contains(c.left, "x.tach") || name == "link to nothing" {
				return
			}
			// The contents of the file are lost. Its metadata have the reason.
			r, e := reader.Open(path)
			if e != nil {
				t.Fatal(e)
			}
			defer r.Close()
			m, e := r.Metadata()
			if e != nil || r.Unfinished() || m.Session == nil || !strings.Contains(err.Error(), m.Session.Error) || m.Session.Error == "" {
				t.Errorf("unfinished: %v, %+v, %v", r.Unfinished(), m.Session, e)
			}
		})
	}
}
