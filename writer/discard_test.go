//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// Discard removes only the file that Create made and its journal.
func TestDiscard(t *testing.T) {
	for name, c := range map[string]struct {
		before, during func(path string) error
		left           string
	}{
		"no file": {},
		"empty file": {before: func(path string) error {
			return os.WriteFile(path, nil, 0o600)
		}},
		"a file": {before: func(path string) error {
			return os.WriteFile(path, []byte("x"), 0o600)
		}, left: "x.tach"},
		"removed": {during: os.Remove},
		"moved": {during: func(path string) error {
			return os.Rename(path, path+".moved")
		}, left: "x.tach.moved"},
		"replaced": {during: func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("another's"), 0o600))
		}, left: "x.tach"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.tach")
			if c.before != nil {
				if err := c.before(path); err != nil {
					t.Fatal(err)
				}
			}
			w, err := Create(path, Options{Sync: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			n, err := feed(w, 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			if c.during != nil {
				if err := c.during(path); err != nil {
					t.Fatal(err)
				}
			}
			// If the file was removed or replaced, Discard returns the same error as Close.
			if err := w.Discard(); (err != nil) != (c.during != nil) {
				t.Errorf("Discard: %v", err)
			}
			if err := w.Write(&tachyon.Sample{}); err == nil {
				t.Error("the writer is not closed")
			}
			if err := w.Discard(); (err != nil) != (c.during != nil) {
				t.Errorf("Discard again: %v", err)
			}
			files, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, f := range files {
				left = append(left, f.Name())
			}
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("%q is left, not %q", got, c.left)
			}
			if b, err := os.ReadFile(path); name == "replaced" && (err != nil || string(b) != "another's") {
				t.Errorf("the other file is now %q, %v", b, err)
			}
			if name == "a file" {
				if got, finished := holds(t, path); got != n || !finished {
					t.Errorf("%d samples of %d", got, n)
				}
			}
		})
	}
}
