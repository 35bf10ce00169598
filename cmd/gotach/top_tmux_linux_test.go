package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/testenv"
)

// A tmux is a terminal that a test looks at.
type tmux struct {
	t      *testing.T
	path   string
	socket string
}

// patient is how long a test waits for what should come at once.
const patient = 40 * time.Second

// newTmux runs a shell script in a terminal of a size.
func newTmux(t *testing.T, width, height int, script string, env ...string) *tmux {
	t.Helper()
	path := testenv.Command(t, "tmux", "apt-get install tmux")
	dir, err := os.MkdirTemp("", "tmux") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	x := &tmux{t, path, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		exec.Command(path, "-S", x.socket, "kill-server").Run() // it has ended if the test failed early
		os.RemoveAll(dir)
	})
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height)}
	for _, v := range append(env, "LC_ALL=C.UTF-8", "COLUMNS=") {
		args = append(args, "-e", v)
	}
	x.run(append(args, script)...)
	return x
}

func (x *tmux) run(args ...string) string {
	x.t.Helper()
	out, err := exec.Command(x.path, append([]string{"-u", "-S", x.socket}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// screen returns what is on the screen.
func (x *tmux) screen() string { return x.run("capture-pane", "-p") }

func (x *tmux) keys(keys ...string) { x.run(append([]string{"send-keys", "-t", "0"}, keys...)...) }

// until waits until the screen is as it should be.
func (x *tmux) until(what string, is func(string) bool) string {
	x.t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		s := x.screen()
		if is(s) {
			return s
		}
		if time.Since(begin) > patient {
			x.t.Fatalf("no %s within %v:\n%s", what, patient, s)
		}
	}
}

// shows waits until the screen has all of these.
func (x *tmux) shows(list ...string) string {
	x.t.Helper()
	return x.until(fmt.Sprintf("%q", list), func(s string) bool {
		for _, text := range list {
			if !strings.Contains(s, text) {
				return false
			}
		}
		return true
	})
}

// checkTop uses gotach top in a terminal of 80 columns, makes it larger, and quits.
func checkTop(t *testing.T, what, status string, env ...string) {
	gotach := testProgram(t, "gotach")
	// The terminal stays after the end.
	x := newTmux(t, 80, 24, gotach+" top "+what+"; echo code $?; stty -a; exec cat", env...)
	if strings.HasSuffix(status, "PLAYING") { // a short file must not end before the test
		x.shows(status)
		x.keys("<", "<", "<", "<")
		status += " 0.0625x"
		x.shows(status)
	}
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		if size[0] != 80 {
			x.run("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
			x.shows("GOROUTINES DURING THE WINDOW", "l latest")
		}
		s := x.shows("gotach top", status, " until ", "on CPU", "FUNCTION", "q quit", "? keys", "space pause", "/ filter", "s sort")
		lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
		if len(lines) != size[1] {
			t.Errorf("%d lines, want %d:\n%s", len(lines), size[1], s)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > size[0] {
				t.Errorf("a line of more than %d columns: %q", size[0], line)
			}
		}
		if !strings.Contains(lines[0], status) || !strings.Contains(lines[len(lines)-1], "q quit") {
			t.Errorf("the first line lacks the state, or the last one the keys:\n%s", s)
		}
		x.keys("s")
		x.shows("by total")
		x.keys("S")
		x.shows("by self")
		x.keys("/", "hash", "Enter")
		x.until("stacks with hash only", func(s string) bool {
			return strings.Contains(s, "filter hash, by self") && strings.Contains(s, ".hash") && !strings.Contains(s, "[IO wait]")
		})
		x.keys("Escape")
		x.until("no filter", func(s string) bool { return !strings.Contains(s, "filter hash") })
		x.keys("2")
		x.shows("[2 Blocked]", "BLOCKED AT", "gotach.busy")
		x.keys("3")
		x.shows("[3 Locks]", "LONGEST", "chan")
		x.keys("4")
		x.shows("[4 Goroutines]", "CREATED BY", "gotach.watched")
		x.keys("?")
		x.shows("any key goes back")
		x.keys("?")
		x.keys("1")
		x.shows("FUNCTION")
	}
	x.keys("Space")
	x.shows("‖ PAUSED")
	x.keys("l")
	x.until("no pause", func(s string) bool { return !strings.Contains(s, "PAUSED") })
	x.keys("q")
	s := x.shows("code 0", "echoe")
	if strings.Contains(s, "FUNCTION") || strings.Contains(s, "-echo ") || strings.Contains(s, "-icanon") {
		t.Errorf("the terminal was not restored:\n%s", s)
	}
}

// gotach top works in tmux, at 80×24 and at 200×60, on a program that runs, by its file, its id and its URL, and on
// its file when it has ended.
func TestTopLive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "live.tach")
	program := testCommand(t, "watched", file)
	program.Stderr = os.Stderr
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	var address string
	if _, err := fmt.Fscan(out, &address); err != nil {
		t.Error(err)
	}
	t.Run("live", func(t *testing.T) {
		for name, what := range map[string]string{
			"file": file, "process": fmt.Sprint(program.Process.Pid), "URL": "http://" + address + "/",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkTop(t, what, "● LIVE")
			})
		}
	})
	in.Close()
	if err := program.Wait(); err != nil {
		t.Error(err)
	}
	checkTop(t, file, "► PLAYING", "NO_COLOR=1")
}
