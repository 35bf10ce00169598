//go:build unix

package auto

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
)

const enough = 5 // samples

// written reports whether the session has written some samples.
func written() bool { return session.Stats().Samples >= enough }

func ready() {
	testenv.Await(written)
	fmt.Println("ready")
}

// children are programs that import auto. Each prints "ready" when it can take a signal. Its standard input ends when
// the signal was sent.
var children = map[string]func(){
	"waits": func() { // has no handler
		ready()
		time.Sleep(time.Hour)
	},
	"handles": func() { // as servers do that have nothing to finish
		c := make(chan os.Signal, 10)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
		ready()
		fmt.Println("got", <-c)
		os.Exit(len(c) + 7)
	},
	"finishes": func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		ready()
		<-c
		if err := Stop(); err != nil {
			fmt.Println(err)
		}
		os.Exit(5)
	},
	"ignores": func() {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		ready()
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(9)
	},
	"ignoring": func() {
		ready()
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(6)
	},
	"returns": func() {
		defer Stop()
		ready()
	},
	"stops": func() { // calls Stop before the signal comes
		testenv.Await(written)
		if err := Stop(); err != nil {
			fmt.Println(err)
		}
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; strings.Contains(string(stacks), "gotach/profiler/internal/") {
			fmt.Printf("%s\n", stacks)
		}
		ready()
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
	cmd.Env = append(os.Environ(), "GOTACH_TEST_CHILD="+name, "PROFILE_OUT="+out, "PROFILE_SOURCE=portable", "PROFILE_BUDGET=100", "GOCOVERDIR="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err1 := cmd.StdoutPipe()
	stdin, err2 := cmd.StdinPipe()
	// The child must not inherit that a signal is ignored, as it is under nohup. A signal with a handler here has its default effect there.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	err := errors.Join(err1, err2, cmd.Start())
	signal.Stop(handled)
	testenv.OK(t, err)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if lines.Text() != "ready" {
			output += lines.Text() + "\n"
			continue
		}
		if sig != 0 {
			testenv.OK(t, cmd.Process.Signal(sig))
		}
		stdin.Close()
	}
	_ = cmd.Wait() // ProcessState has the result
	return output + stderr.String(), cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// readable checks that the file has the samples that were written before the signal, and that it is finished or not, as
// the caller expects. It returns how many samples there are.
func readable(t *testing.T, path string, finished bool) (samples int) {
	t.Helper()
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	testenv.Same(t, "unfinished", r.Unfinished(), !finished)
	samples = testenv.Count(t, reader.Open, path)
	testenv.Within(t, "samples", samples, enough, math.MaxInt)
	for _, f := range r.Frames() {
		switch strings.TrimPrefix(f.Func, "github.com/gotach/profiler") {
		case "/auto.init.0", "/auto.Stop", ".Start", ".(*Session).Stop":
			t.Errorf("a sample has %s", f.Func)
		}
	}
	return samples
}

// A signal has the same effect on the program as without the profiler. The file of a program that it ends can be read and finished.
func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		child    string
		sig      syscall.Signal
		finished bool
		prints   string
		state    syscall.WaitStatus // a signal, or an exit status above it
	}{
		{"waits", syscall.SIGTERM, false, "", 15},
		{"waits", syscall.SIGINT, false, "", 2},
		{"waits", syscall.SIGHUP, false, "", 1},
		{"waits", syscall.SIGKILL, false, "", 9},
		{"handles", syscall.SIGTERM, false, "got terminated\n", 7 << 8},
		{"handles", syscall.SIGINT, false, "got interrupt\n", 7 << 8},
		{"finishes", syscall.SIGTERM, true, "", 5 << 8},
		{"ignores", syscall.SIGTERM, false, "", 9 << 8},
		{"ignoring", syscall.SIGINT, false, "", 6 << 8},
		{"stops", syscall.SIGTERM, true, "", 15},
		{"returns", 0, true, "", 0},
	} {
		t.Run(fmt.Sprint(tc.child, " ", tc.sig), func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "x.tach")
			output, state := run(t, tc.child, out, tc.sig)
			testenv.Same(t, "prints", output, tc.prints)
			testenv.Same(t, "the wait status", state, tc.state)
			samples := readable(t, out, tc.finished)
			if !tc.finished {
				testenv.OK(t, testenv.Err(recovery.Finish(out)))
				testenv.Same(t, "samples after recovery", readable(t, out, true), samples)
			}
		})
	}
}

// Without PROFILE_OUT no session starts and no file is created.
func TestUnset(t *testing.T) {
	output, _ := run(t, "idle", "", 0)
	testenv.Same(t, "prints", output, "goroutines 1 session false\n")
	testenv.Same(t, "files", len(testenv.Must(filepath.Glob("*.tach"))), 0)
}
