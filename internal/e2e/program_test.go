package e2e

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// children are programs that a test runs in a new process, with and without a profile. Output and exit
// code must be the same. Each gets a function that starts a session.
var children = map[string]func(start func() *profiler.Session){
	"returns": func(start func() *profiler.Session) {
		defer start().Stop()
		fmt.Println("done")
	},
	"panics": func(start func() *profiler.Session) {
		defer start().Stop()
		panic("as intended")
	},
	"recovers": func(start func() *profiler.Session) {
		defer func() { fmt.Println("recovered", recover()) }()
		defer start().Stop()
		panic("as intended")
	},
	"goexit": func(start func() *profiler.Session) {
		defer start().Stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer start().Stop()
			time.Sleep(time.Millisecond)
		}()
		<-done
	},
	"exits": func(start func() *profiler.Session) {
		s := start()
		defer s.Stop()
		if s != nil {
			awaitSamples(s, 20)
		}
		os.Exit(3)
	},
	"full": func(start func() *profiler.Session) {
		defer start().Stop()
		changingStacks()
		fmt.Println("done")
	},
}

// changingStacks causes more samples than fit in a few KB.
func changingStacks() {
	var deep func(n int)
	deep = func(n int) {
		if n == 0 {
			time.Sleep(2 * time.Millisecond)
			return
		}
		deep(n - 1)
	}
	for i := range 100 {
		deep(i)
	}
}

func init() { programs["GOTACH_TEST_CHILD"] = runChild }

// runChild is the main of a child process.
func runChild() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	children[os.Getenv("GOTACH_TEST_CHILD")](func() *profiler.Session {
		if os.Getenv("PROFILE_OUT") == "" {
			return nil
		}
		return profiler.Start(profiler.Compression(profiler.Uncompressed), profiler.Budget(100))
	})
}

// result is the result of a child.
type result struct {
	code           int
	stdout, stderr string
}

// child runs a child, with a profile in the file out unless that is empty.
func child(t *testing.T, name, out string) result {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOTACH_TEST_CHILD="+name, "PROFILE_OUT="+out, "PROFILE_SOURCE=portable", "GOCOVERDIR="+t.TempDir())
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code has the result
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// A program has the same output and exit code with and without a profile.
func TestProgramUnchanged(t *testing.T) {
	for _, tc := range []struct {
		name     string
		finished bool
		warnings int
	}{
		{"returns", true, 0},
		{"panics", true, 0},
		{"recovers", true, 0},
		{"goexit", true, 1}, // a second session
		{"exits", false, 0}, // os.Exit runs no deferred Stop
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "x.tach")
			plain, profiled := child(t, tc.name, ""), child(t, tc.name, out)
			if plain.code != profiled.code || plain.stdout != profiled.stdout {
				t.Errorf("plain: code %d, prints %q\nprofiled: code %d, prints %q", plain.code, plain.stdout, profiled.code, profiled.stdout)
			}
			if n := strings.Count(profiled.stderr, "level=WARN"); n != tc.warnings {
				t.Errorf("%d warnings, want %d:\n%s", n, tc.warnings, profiled.stderr)
			}
			if strings.Contains(plain.stderr, "panic: as intended") != strings.Contains(profiled.stderr, "panic: as intended") {
				t.Errorf("the output of the panic differs:\n%s", profiled.stderr)
			}
			if tc.finished {
				count(t, out)
				return
			}
			if head := make([]byte, 4); readHead(t, out, head) && string(head) != "\x00\x00\x00\x00" {
				t.Errorf("an unfinished file starts with %q", head)
			}
			unfinished := count(t, out) // before the recovery
			res, err := recovery.Finish(out)
			if err != nil {
				t.Fatal(err)
			}
			if n := count(t, out); n == 0 || n != unfinished || uint64(n) != res.Samples {
				t.Errorf("%d samples before the recovery, %d after it; the recovery counts %d", unfinished, n, res.Samples)
			}
			r, err := reader.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if m, err := r.Metadata(); err != nil || m.Session == nil || m.Session.Program != filepath.Base(os.Args[0]) || m.Session.Error == "" {
				t.Errorf("metadata of the recovered file: %+v, %v", m, err)
			}
		})
	}
}

func readHead(t *testing.T, path string, b []byte) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = io.ReadFull(f, b)
	return err == nil
}

// count returns the number of samples in a file.
func count(t *testing.T, path string) int {
	t.Helper()
	return testenv.Count(t, reader.Open, path)
}

// awaitSamples waits until a session has taken n samples. The first tick can be late.
func awaitSamples(s *profiler.Session, n int64) {
	testenv.Await(func() bool { return s.Err() != nil || s.Stats().Samples >= n })
}
