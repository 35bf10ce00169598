//go:build unix

package auto

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/reader"
)

// These settings of the children come before auto's init function.
var _ = func() bool {
	keepFor = time.Hour // so that the machine's load has no influence
	if os.Getenv("GOTACH_TEST_BESIDE") != "" {
		keepFirst = func(time.Duration, func(), ...syscall.Signal) (func(), error) { return nil, errors.ErrUnsupported }
	}
	return true
}()

// children are programs that import auto. Each prints "ready" when it can take a
// signal. Its later output and its exit status must be the same with and without
// a profile.
var children = map[string]func(){
	"waits": func() { // waits for the signal and has no handler
		fmt.Println("ready")
		time.Sleep(time.Minute)
	},
	"handles": func() {
		c := make(chan os.Signal, 10)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		fmt.Println("got", <-c)
		// Wait for the end of the session: auto would raise the signal again only after it.
		for begin := time.Now(); session != nil && len(session.Files()) == 0 && time.Since(begin) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
		select {
		case s := <-c:
			fmt.Println("got again", s)
		case <-time.After(500 * time.Millisecond):
		}
		os.Exit(7)
	},
	"exits": func() { // as servers do that have nothing to finish
		c := make(chan os.Signal, 10)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		<-c
		os.Exit(len(c) + 5)
	},
	"resets": func() {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
		signal.Reset(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Minute)
	},
	"ignores": func() {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		time.Sleep(500 * time.Millisecond)
		os.Exit(9)
	},
	"returns": func() {
		defer Stop()
		fmt.Println("ready")
	},
	"stops": func() { // calls Stop before the signal comes
		if err := Stop(); err != nil {
			fmt.Println(err)
		}
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; strings.Contains(string(stacks), "gotach/profiler/internal/") {
			fmt.Printf("%s\n", stacks)
		}
		fmt.Println("ready")
		time.Sleep(time.Minute)
	},
	"idle": func() {
		fmt.Println("ready")
		fmt.Println("goroutines", runtime.NumGoroutine(), "session", session != nil)
	},
}

func TestMain(m *testing.M) {
	if c := children[os.Getenv("GOTACH_TEST_CHILD")]; c != nil {
		c()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type result struct {
	output string // after "ready"
	state  syscall.WaitStatus
	stderr string
}

// run starts a child, waits until it is ready, sends it sig (0 for none) and
// waits until it has ended. wrap is a command that executes the child.
func run(t *testing.T, name, out string, sig syscall.Signal, wrap ...string) result {
	t.Helper()
	args := append(wrap, os.Args[0])
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GOTACH_TEST_CHILD="+name, "PROFILE_OUT="+out, "PROFILE_SOURCE=portable", "GOCOVERDIR="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if lines.Text() == "ready" && sig != 0 {
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			continue
		}
		output.WriteString(lines.Text() + "\n")
	}
	_ = cmd.Wait() // ProcessState has the result
	return result{output.String(), cmd.ProcessState.Sys().(syscall.WaitStatus), stderr.String()}
}

// readable checks that the file's samples can be read, and that the file is
// finished or not, as the caller expects.
func readable(t *testing.T, path string, finished bool) {
	t.Helper()
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Unfinished() == finished {
		t.Errorf("finished = %v, want %v", !r.Unfinished(), finished)
	}
	for _, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range r.Frames() {
		switch strings.TrimPrefix(f.Func, "github.com/gotach/profiler") {
		case "/auto.init.0", "/auto.Stop", ".Start", ".(*Session).Stop":
			t.Errorf("a sample has %s", f.Func)
		}
	}
}

// A signal finishes the file. Then it has the same effect on the program as
// without the profiler.
func TestSignals(t *testing.T) {
	kept := runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")
	t.Run("kept", func(t *testing.T) { testSignals(t, kept) })
	// The same where the program gets the signal at the same time as auto.
	t.Setenv("GOTACH_TEST_BESIDE", "1")
	t.Run("beside", func(t *testing.T) { testSignals(t, false) })
}

func testSignals(t *testing.T, kept bool) {
	for _, tc := range []struct {
		child    string
		sig      syscall.Signal
		finished bool
	}{
		{"waits", syscall.SIGTERM, true},
		{"waits", syscall.SIGINT, true},
		{"handles", syscall.SIGTERM, true},
		{"handles", syscall.SIGINT, true},
		{"exits", syscall.SIGTERM, kept},
		{"exits", syscall.SIGINT, kept},
		{"resets", syscall.SIGTERM, kept}, // signal.Reset resets auto's signal.Notify too
		{"ignores", syscall.SIGTERM, false},
		{"waits", syscall.SIGHUP, false},
		{"waits", syscall.SIGKILL, false},
		{"stops", syscall.SIGTERM, true},
		{"returns", 0, true},
	} {
		t.Run(fmt.Sprintf("%s %v", tc.child, tc.sig), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "x.tach")
			plain, profiled := run(t, tc.child, "", tc.sig), run(t, tc.child, out, tc.sig)
			if plain.state != profiled.state || plain.output != profiled.output {
				t.Errorf("plain: %#x, prints %q\nprofiled: %#x, prints %q\n%s", plain.state, plain.output, profiled.state, profiled.output, profiled.stderr)
			}
			if profiled.stderr != plain.stderr {
				t.Errorf("on stderr: %s", profiled.stderr)
			}
			if _, err := os.Stat(out + ".journal"); err != nil && tc.child == "exits" {
				tc.finished = true // without keeping the signal, this is a race
			}
			readable(t, out, tc.finished)
			if !tc.finished {
				if _, err := recovery.Finish(out); err != nil {
					t.Fatal(err)
				}
				readable(t, out, true)
			}
		})
	}
}

// A signal that the parent set to be ignored (SIGHUP by nohup, SIGINT for a
// background job of a shell) stays ignored.
func TestInheritedIgnore(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.tach")
	r := run(t, "handles", out, syscall.SIGTERM, "sh", "-c", `trap "" INT; exec "$0"`)
	if r.state.ExitStatus() != 7 || r.output != "got terminated\n" {
		t.Errorf("exit %d, prints %q", r.state.ExitStatus(), r.output)
	}
	readable(t, out, true)
}

// Without PROFILE_OUT no session starts and no file is created.
func TestUnset(t *testing.T) {
	r := run(t, "idle", "", 0)
	if !strings.Contains(r.output, "session false") || !strings.Contains(r.output, "goroutines 1 ") {
		t.Errorf("prints %q", r.output)
	}
	made, _ := filepath.Glob("*.tach")
	if len(made) != 0 {
		t.Errorf("created %v", made)
	}
}
