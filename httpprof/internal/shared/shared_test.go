package shared

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// TestSweep: folders of processes that have ended are removed, and no others.
func TestSweep(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	mine, remove := testenv.Must2(Folder())
	if _, err := os.Stat(filepath.Join(mine, lockName)); err != nil {
		testenv.Skip(t, "files cannot be locked here")
	}
	fresh := filepath.Join(temp, "gotach-http-fresh") // its process has not locked it yet
	ended := filepath.Join(temp, "gotach-http-ended")
	other := filepath.Join(temp, "other-http-ended")
	foreign := filepath.Join(temp, "gotach-http-foreign") // others can write to it
	linked := filepath.Join(temp, "gotach-http-linked")
	for _, dir := range []string{fresh, ended, other, foreign} {
		testenv.OK(t, os.Mkdir(dir, 0o700))
		name := lockName
		if dir == fresh {
			name += ".new"
		}
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	testenv.OK(t, os.WriteFile(filepath.Join(ended, "live.tach"), nil, 0o600))
	testenv.OK(t, os.Symlink(other, linked))
	testenv.OK(t, os.Chmod(foreign, 0o777))
	swept = sync.Once{} // as in another process
	next, removeNext := testenv.Must2(Folder())
	got, _ := filepath.Glob(filepath.Join(temp, "*"))
	want := []string{mine, next, fresh, other, foreign, linked}
	slices.Sort(want)
	testenv.NoDiff(t, "left", cmp.Diff(want, got))
	testenv.OK(t, errors.Join(remove(), removeNext()))
	testenv.Is(t, "the folder", testenv.Err(os.Stat(mine)), os.ErrNotExist)
}

// TestShared: files share the session of the first one, which ends with the last one. If it fails, the next file has
// another one.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	follow := func(name string) *Following {
		return testenv.Must(Follow(t.Context(), filepath.Join(dir, name), []profiler.Option{profiler.Source(profiler.Portable), profiler.Output(filepath.Join(dir, "no.tach"))}))
	}
	one := follow("1.tach")
	two := follow("2.tach")
	testenv.Same(t, "one session", one.of == two.of && one.of == present, true)
	_, start := Past(t.Context())
	testenv.Same(t, "the session has no files of the past", start.IsZero(), true)
	testenv.OK(t, one.End())
	select {
	case <-two.Stopped:
		t.Error("the session has ended with the first file")
	default:
	}
	testenv.OK(t, present.Session.Stop()) // as after an error
	three := follow("3.tach")
	testenv.Same(t, "a session that has ended is used", three.of == two.of, false)
	testenv.OK(t, two.End())
	testenv.OK(t, three.End())
	testenv.Same(t, "there still is a session", present != nil, false)
	list, _ := filepath.Glob(filepath.Join(dir, "*"))
	testenv.Same(t, "files", len(list), 3)
}

// TestWaits: a session that the program begins or ends is waited for, but not for ever.
func TestWaits(t *testing.T) {
	own := testenv.Must(profiler.Open(profiler.Source(profiler.Portable), profiler.Output(filepath.Join(t.TempDir(), "own.tach"))))
	defer own.Stop()
	real, most := followSession, patience
	defer func() { followSession, patience = real, most }()
	tries := 0
	followSession = func(path string) (*file, error) {
		if tries++; tries < 4 {
			return nil, ErrNoSession
		}
		return real(path)
	}
	f := testenv.Must(Follow(t.Context(), filepath.Join(t.TempDir(), "x.tach"), nil))
	testenv.OK(t, f.End())
	tries, patience = -1000, 0
	testenv.Is(t, "a session that never begins", testenv.Err(Follow(t.Context(), "", nil)), ErrNoSession)
}
