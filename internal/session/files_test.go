package session

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

// opened begins a session that writes x.tach in dir. The working directory is dir until it has begun.
func opened(t *testing.T, dir string, change func(*Config)) (*Session, *testenv.Log) {
	t.Helper()
	log := &testenv.Log{}
	c := Defaults()
	c.Output, c.Source, c.Budget, c.Log = "x.tach", sampler.Portable, 100, log.Logger()
	change(&c)
	t.Chdir(dir)
	s := testenv.Must(Open(c))
	t.Chdir(t.TempDir())
	t.Cleanup(func() { _ = s.Stop() })
	return s, log
}

// A session begins a new file after some time and keeps two finished files.
func TestRotate(t *testing.T) {
	for _, source := range []string{sampler.Portable, sampler.Native} {
		if source == sampler.Native && (runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64") {
			continue
		}
		t.Run(source, func(t *testing.T) {
			dir := t.TempDir()
			earlier := filepath.Join(dir, "x.3.tach")
			testenv.OK(t, os.WriteFile(earlier, []byte("another's"), 0o600))
			c := make(chan int)
			defer close(c)
			for range 5 {
				go func() { <-c }()
			}
			// While files are finished and synced, more goroutines of the profiler run.
			s, log := opened(t, dir, func(c *Config) {
				c.RotateEvery, c.KeepFiles, c.Source, c.Sync, c.MaxPause = 20*time.Millisecond, 2, source, MinSync, time.Minute
			})
			testenv.Same(t, "the first file", s.Path(), filepath.Join(dir, "x.4.tach"))
			testenv.Await(func() bool { return fileNumber(s) >= 7 })
			testenv.OK(t, s.Stop())
			testenv.SameList(t, "logged", log.Lines(), nil)
			last := fileNumber(s)
			testenv.Within(t, "the last file", last, 7, 1<<20)
			testenv.SameList(t, "kept", s.Files(), []string{filepath.Join(dir, fmt.Sprintf("x.%d.tach", last-1)), s.Path()})
			testenv.Same(t, "files in the directory", len(testenv.Must(os.ReadDir(dir))), 3)
			testenv.Same(t, "the file that was there", string(testenv.Must(os.ReadFile(earlier))), "another's")
			testenv.Same(t, "samples wait for the channel", checkFiles(t, s, last-4) > 0, source == sampler.Native)
		})
	}
}

// fileNumber returns 7 if the session writes x.7.tach, 0 if it writes x.tach.
func fileNumber(s *Session) (n int) {
	fmt.Sscanf(filepath.Base(s.Path()), "x.%d.tach", &n)
	return n
}

// checkFiles checks that each of a session's files has samples, a checksum and the metadata
// of its own part, and none of the profiler's own goroutines. Parts are numbered from first, and there is no
// gap in time between them. checkFiles returns how many samples wait for a channel that their file describes.
func checkFiles(t *testing.T, s *Session, first int) (waits int) {
	t.Helper()
	const module = "github.com/gotach/profiler"
	var end int64 // of the file before, in µs
	for i, path := range s.Files() {
		testenv.FailIf(t, testenv.Count(t, reader.Open, path) == 0 && path != s.Path(), "%s has no samples", path)
		r := testenv.Closes(t, testenv.Must(reader.Open(path)))
		m := testenv.Metadata(t, reader.Open, path)
		d := m.Session
		testenv.Prints(t, path+": part, start, samples and error", fmt.Sprintf("%d %d %d ", first+i, r.Header().Start, r.Header().Samples), d.Part, d.Start.UnixMicro(), d.Samples, d.Error)
		testenv.Same(t, path+" has the session's start", d.SessionStart.Equal(s.about.start), true)
		if i > 0 {
			testenv.Same(t, path+" begins where the one before ends", d.Start.UnixMicro(), end)
		}
		end = d.Start.Add(d.Duration).UnixMicro()
		described := map[uint64]bool{}
		for _, g := range m.Goroutines {
			described[g.ID] = true
			testenv.FailIf(t, g.First > g.Last || g.Last > uint64(d.Duration.Microseconds()) || strings.HasPrefix(g.CreatedBy, module+"/internal/own."), "%s: goroutine %+v", path, g)
		}
		channels := map[int32]bool{}
		for _, o := range m.Objects {
			channels[o.Number] = o.Kind == tachyon.ObjectChannel
		}
		frames := r.Frames()
		for sample := range testenv.All(t, r.Samples()) {
			if sample.Interpreter == tachyon.User && !described[sample.Thread] { // a short file may have only CPU time that no goroutine used
				t.Fatalf("%s: goroutine %d is not in the metadata", path, sample.Thread)
			}
			root := tachyon.Frame{}
			for _, id := range sample.Stack {
				root = frames[id]
				if root.Func == "[chan receive]" && root.Line != 0 {
					waits++
					testenv.StopIf(t, !channels[root.Line], "%s: a sample waits for object %d, which is not a channel of %+v", path, root.Line, m.Objects)
				}
			}
			testenv.StopIf(t, strings.HasPrefix(root.Func, module) && !strings.HasSuffix(root.File, "_test.go"), "goroutine %d began in %s", sample.Thread, root.Func)
		}
	}
	return waits
}

func TestExpand(t *testing.T) {
	start := time.Date(2026, 11, 21, 6, 48, 44, 0, time.UTC)
	pid := fmt.Sprint(os.Getpid())
	for in, want := range map[string]string{
		"app.tach":        "app.tach",
		"%p":              pid,
		"a-%p-%p.tach":    "a-" + pid + "-" + pid + ".tach",
		"/tmp/%e.tach":    "/tmp/" + programName() + ".tach",
		"%h/%t":           fileName(hostname()) + "/20261121T064844",
		"100%%":           "100%",
		"%x 50%":          "%x 50%",
		"%":               "%",
		"%%p":             "%p",
		"ünïcode-%%-%t.x": "ünïcode-%-20261121T064844.x",
	} {
		testenv.Same(t, in, expand(in, start), want)
	}
	testenv.Same(t, "a path element", fileName("a/b\x00c"), "a_b_c")
}

// TestSessionKeep: when Keep returns, the reason is in the file, as a reader sees it if the program is killed then; later it is in the finished one.
func TestSessionKeep(t *testing.T) {
	s, _ := opened(t, t.TempDir(), func(c *Config) { c.RotateEvery, c.Source = time.Hour, sampler.Auto })
	says := func() string {
		r := testenv.Closes(t, testenv.Must(reader.Open(s.Path())))
		return testenv.Must(r.Metadata()).Session.Kept
	}
	testenv.Prints(t, "no reason, Keep once in a minute", " true false", says(), Running().Keep("p99 is 800ms"), s.Keep("another"))
	testenv.Same(t, "a kill now leaves the reason", says(), "p99 is 800ms")
	testenv.OK(t, s.Stop())
	testenv.Same(t, "the finished file has the reason", says(), "p99 is 800ms")
	testenv.Prints(t, "Keep after Stop", "false true", s.Keep("late"), Running() == nil)
}
