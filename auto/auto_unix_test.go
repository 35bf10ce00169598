//go:build unix

package auto

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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

// children are programs that import auto. Each prints "ready" when it can take a signal. Its standard input ends when
// the signal was sent.
var children = map[string]func(){
	"waits": func() { // has no handler
		fmt.Println("ready")
		time.Sleep(time.Hour)
	},
	"handles": func() {
		c := make(chan os.Signal, 10)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGWINCH)
		fmt.Println("ready")
		fmt.Println("got", <-c)
		endWatch() // if auto raises the signal again, it has done so then
		_ = syscall.Kill(os.Getpid(), syscall.SIGWINCH)
		for s := range c {
			if s == syscall.SIGWINCH {
				os.Exit(7)
			}
			fmt.Println("got again", s)
		}
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
		time.Sleep(time.Hour)
	},
	"ignores": func() {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(9)
	},
	"ignoring": func() {
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(6)
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
		time.Sleep(time.Hour)
	},
	"idle": func() {
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

// run starts a child, waits until it is ready, sends it sig (0 for none) and waits until it has ended. It returns
// what the child prints beside "ready", also on stderr.
func run(t *testing.T, name, out string, sig syscall.Signal) (output string, state syscall.WaitStatus) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	if name == "ignoring" { // as with nohup, and for a background job of a shell
		cmd = exec.Command("sh", "-c", `trap "" INT; exec "$0"`, os.Args[0])
	}
	cmd.Env = append(os.Environ(), "GOTACH_TEST_CHILD="+name, "PROFILE_OUT="+out, "PROFILE_SOURCE=portable", "GOCOVERDIR="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err1 := cmd.StdoutPipe()
	stdin, err2 := cmd.StdinPipe()
	// The child must not inherit that a signal is ignored, as it is under nohup. A signal with a handler here has its default effect there.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	err := errors.Join(err1, err2, cmd.Start())
	signal.Stop(handled)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if lines.Text() != "ready" {
			output += lines.Text() + "\n"
			continue
		}
		if sig != 0 {
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		stdin.Close()
	}
	_ = cmd.Wait() // ProcessState has the result
	return output + stderr.String(), cmd.ProcessState.Sys().(syscall.WaitStatus)
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
	keeps := runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")
	for _, beside := range []string{"", "beside"} {
		t.Setenv("GOTACH_TEST_BESIDE", beside) // the program gets the signal at the same time as auto
		kept := keeps && beside == ""
		for _, tc := range []struct {
			child    string
			sig      syscall.Signal
			finished bool
			prints   string
			exit     int // -1: ended by the signal
		}{
			{"waits", syscall.SIGTERM, true, "", -1},
			{"waits", syscall.SIGINT, true, "", -1},
			{"handles", syscall.SIGTERM, true, "got terminated\n", 7},
			{"handles", syscall.SIGINT, true, "got interrupt\n", 7},
			{"exits", syscall.SIGTERM, kept, "", 5},
			{"exits", syscall.SIGINT, kept, "", 5},
			{"resets", syscall.SIGTERM, kept, "", -1}, // signal.Reset resets auto's signal.Notify too
			{"ignores", syscall.SIGTERM, false, "", 9},
			{"ignoring", syscall.SIGINT, false, "", 6},
			{"waits", syscall.SIGHUP, false, "", -1},
			{"waits", syscall.SIGKILL, false, "", -1},
			{"stops", syscall.SIGTERM, true, "", -1},
			{"returns", 0, true, "", 0},
		} {
			t.Run(fmt.Sprintf("%s %s %v", beside, tc.child, tc.sig), func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "x.tach")
				output, state := run(t, tc.child, out, tc.sig)
				if output != tc.prints {
					t.Errorf("prints %q, want %q", output, tc.prints)
				}
				if tc.exit < 0 && (!state.Signaled() || state.Signal() != tc.sig) || tc.exit >= 0 && state.ExitStatus() != tc.exit {
					t.Errorf("ends with %#x, want exit status %d", state, tc.exit)
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
}

// Without PROFILE_OUT no session starts and no file is created.
func TestUnset(t *testing.T) {
	if output, _ := run(t, "idle", "", 0); output != "goroutines 1 session false\n" {
		t.Errorf("prints %q", output)
	}
	if made, _ := filepath.Glob("*.tach"); len(made) != 0 {
		t.Errorf("created %v", made)
	}
}
