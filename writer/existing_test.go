//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Create does not change a file that is no profile, also not behind a link, and leaves no journal beside it.
func TestNotProfile(t *testing.T) {
	whole := finished(t)
	for name, b := range map[string][]byte{
		"text":             []byte("precious, and longer than the header of a profile is; nobody has a copy of it."),
		"a few bytes":      {1},
		"a cut header":     whole[:tachyon.HeaderSize-1],
		"a disk's image":   make([]byte, 4096),
		"one zero byte":    {0},
		"another's header": append([]byte("TACH"), make([]byte, 4096)...)[1:],
	} {
		for _, link := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.tach")
			file := path
			if link {
				file = filepath.Join(dir, "precious")
				testenv.OK(t, os.Symlink("precious", path))
			}
			testenv.OK(t, os.WriteFile(file, b, 0o600))
			if _, err := Create(path, Options{}); !errors.Is(err, ErrNotProfile) {
				t.Errorf("%s, link %v: %v", name, link, err)
			}
			if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, b) {
				t.Errorf("%s, link %v: the file was changed: %v", name, link, err)
			}
			if list, err := filepath.Glob(filepath.Join(dir, "*.journal")); err != nil || len(list) > 0 {
				t.Errorf("%s, link %v: %q is left", name, link, list)
			}
		}
	}
}

// Create overwrites what can hold nothing: a finished profile, an empty file, and an unfinished profile whose journal is missing.
func TestOverwritten(t *testing.T) {
	whole := finished(t)
	for name, b := range map[string][]byte{
		"finished":             whole,
		"empty":                nil,
		"without journal":      append(make([]byte, tachyon.HeaderSize), whole[tachyon.HeaderSize:]...),
		"empty, no journal":    make([]byte, tachyon.HeaderSize),
		"of the other layout":  append([]byte{0x48, 0x43, 0x41, 0x54, 1}, make([]byte, 100)...),
		"of a big-endian host": append([]byte("TACH\x00\x00\x00\x01"), make([]byte, 100)...),
	} {
		path := filepath.Join(t.TempDir(), "x.tach")
		testenv.OK(t, os.WriteFile(path, b, 0o600))
		w, err := Create(path, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		testenv.OK(t, w.Close())
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) != 1 || w.Kept() != "" {
			t.Errorf("%s: %q is left, kept is %q", name, left, w.Kept())
		}
	}
}

// A program that is killed and starts again does not overwrite its unfinished profile. The first one and the two latest ones
// stay, and with them the file that is being written.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "x.tach"), filepath.Join(dir, "link.tach")
	testenv.OK(t, errors.Join(os.Symlink("x.tach", link), os.WriteFile(filepath.Join(dir, "x.7.tach"), finished(t), 0o600)))
	const runs = 30
	for run := range runs {
		w := testenv.Must(Create([]string{path, link}[run%2], Options{}))
		testenv.OK(t, second(feed(w, 0, 1000+run)))
		if want := fmt.Sprintf("%s/x.%d.tach", dir, run+7); run > 0 && w.Kept() != want || run == 0 && w.Kept() != "" {
			t.Fatalf("run %d: kept %q, want %q", run, w.Kept(), want)
		}
		said := ""
		testenv.OK(t, journal.Prune(path, journal.MaxKeptBytes, func(paths []string) {
			said = strings.Join(paths, " ")
			if _, err := os.Stat(said); err != nil {
				t.Errorf("deleted before it was said: %v", err)
			}
		}))
		if want := fmt.Sprintf("%s/x.%d.tach", dir, run+5); run > 3 && said != want || run <= 3 && said != "" {
			t.Fatalf("run %d: %q is deleted, want %q", run, said, want)
		}
		if _, err := Create(path, Options{}); !errors.Is(err, ErrBusy) { // takes nothing from a writer that runs
			t.Fatal(err)
		}
		abandon(w)
	}
	var left []string
	for n, samples := range map[int]int{8: 1000, runs + 5: 1000 + runs - 3, runs + 6: 1000 + runs - 2, 0: 1000 + runs - 1} {
		name := "x.tach"
		if n > 0 {
			name = fmt.Sprintf("x.%d.tach", n)
		}
		left = append(left, name, name+journal.Suffix)
		if got, finished := holds(t, filepath.Join(dir, name)); got != samples || finished {
			t.Errorf("%s has %d samples, want %d; finished: %v", name, got, samples, finished)
		}
	}
	left = append(left, "link.tach", "x.7.tach")
	slices.Sort(left)
	var got []string
	list := testenv.Must(os.ReadDir(dir))
	for _, e := range list {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, left) {
		t.Errorf("%q is left, not %q", got, left)
	}
}

// A kill while an unfinished profile gets its new name loses nothing: the journal has both names then.
func TestKilledInKeep(t *testing.T) {
	for name, c := range map[string]struct {
		done func(path, to string) error // what was done before the kill
		left string
	}{
		"the journal has both names": {func(path, to string) error { return os.Link(path+journal.Suffix, to+journal.Suffix) }, "x.2.tach"},
		"the profile was moved": {func(path, to string) error {
			return errors.Join(os.Link(path+journal.Suffix, to+journal.Suffix), os.Rename(path, to))
		}, "x.1.tach"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.tach")
		w, err := Create(path, Options{})
		testenv.OK(t, err)
		testenv.OK(t, second(feed(w, 0, 1000)))
		abandon(w)
		testenv.OK(t, c.done(path, filepath.Join(dir, "x.1.tach")))
		w, err = Create(path, Options{})
		testenv.OK(t, err)
		testenv.OK(t, w.Close())
		if n, finished := holds(t, filepath.Join(dir, c.left)); n != 1000 || finished {
			t.Errorf("%s: %d samples", name, n)
		}
	}
}
