package proftest

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// Of many packages that begin at once, one may write a file, before it has made it. It may also later, when the file is there.
func TestClaim(t *testing.T) {
	run, out := filepath.Join(t.TempDir(), "go-build12"), filepath.Join(t.TempDir(), "x.tach")
	program := func(n int) string { return filepath.Join(run, fmt.Sprintf("b%03d", n), "same.test") }
	testenv.Same(t, "a file where go test did not make its directory", claim(out, program(0)), true)
	next := filepath.Join(filepath.Dir(run), "go-build13")
	testenv.OK(t, errors.Join(os.Mkdir(run, 0o700), os.Mkdir(next, 0o700)))
	var may, first atomic.Int64
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			if claim(out, program(n)) {
				may.Add(1)
				first.Store(int64(n))
			}
		})
	}
	all.Wait()
	testenv.Same(t, "packages that may write the file", may.Load(), 1)
	for n := range 20 {
		testenv.Same(t, fmt.Sprintf("package %d may write the file; the first was %d", n, first.Load()), claim(out, program(n)), int64(n) == first.Load())
	}
	t.Chdir(filepath.Dir(out))
	other := int(first.Load()+1) % 20
	for path, want := range map[string]bool{filepath.Base(out): false, out + "2": true} {
		testenv.Same(t, path, claim(path, program(other)), want)
	}
	// Another go test replaces the file, and so does a program that somebody built.
	for _, p := range []string{filepath.Join(next, "b001", "same.test"), filepath.Join(filepath.Dir(run), "a", "same.test")} {
		testenv.Same(t, p, claim(out, p), true)
	}
}

// With PROFILE_SOURCE=off the tests run without a profile, and nothing is logged or claimed.
func TestOff(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.tach")
	t.Setenv("PROFILE_OUT", out)
	t.Setenv("PROFILE_SOURCE", "off")
	var log testenv.Log
	usual := slog.Default()
	slog.SetDefault(log.Logger())
	defer slog.SetDefault(usual)
	program, _ := os.Executable()
	testenv.Prints(t, "code and log", "7 []", Run(seven{}), log.Lines())
	testenv.Same(t, "the file is free", claim(out, filepath.Join(filepath.Dir(filepath.Dir(program)), "b999", "other.test")), true)
	testenv.Is(t, "the profile", testenv.Err(os.Stat(out)), os.ErrNotExist)
}

// A test run has a budget of 10 %, unless PROFILE_BUDGET says something else.
func TestBudget(t *testing.T) {
	for set, want := range map[string]float64{"": 10, "3": 3} {
		out := filepath.Join(t.TempDir(), "x.tach")
		t.Setenv("PROFILE_OUT", out)
		t.Setenv("PROFILE_BUDGET", set)
		Run(seven{})
		r := testenv.Must(reader.Open(out))
		testenv.Same(t, set, testenv.Must(r.Metadata()).Session.Budget, want)
		testenv.OK(t, r.Close())
	}
}

type seven struct{}

func (seven) Run() int { return 7 }
