//go:build peers

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"

	"golang.org/x/sys/unix"
)

// A tmux is a terminal that a test looks at.
type tmux struct {
	t      *testing.T
	socket string
}

// newTmux runs a shell script in a terminal of a size.
func newTmux(t *testing.T, width, height int, script string, env ...string) *tmux {
	t.Helper()
	testenv.Command(t, "tmux", "apt-get install tmux")
	dir := testenv.Must(os.MkdirTemp("", "tmux")) // the path of a socket must be short
	x := &tmux{t, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() // it has ended if the test failed early
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
	out, err := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...).CombinedOutput()
	testenv.StopIf(x.t, err != nil, "tmux %v: %v\n%s", args, err, out)
	return string(out)
}

func (x *tmux) keys(keys ...string) { x.run(append([]string{"send-keys", "-t", "0"}, keys...)...) }

// press presses a key and waits until the screen has all of these.
func (x *tmux) press(key string, want ...string) { x.t.Helper(); x.keys(key); x.shows(want) }

// shows waits until the screen has all of these and none of those.
func (x *tmux) shows(want []string, lacks ...string) (screen string) {
	x.t.Helper()
	shown := false
	testenv.Await(func() bool {
		screen, shown = x.run("capture-pane", "-p"), true
		for _, text := range want {
			shown = shown && strings.Contains(screen, text)
		}
		for _, text := range lacks {
			shown = shown && !strings.Contains(screen, text)
		}
		return shown
	})
	testenv.StopIf(x.t, !shown, "not %q without %q:\n%s", want, lacks, screen)
	return screen
}

// limitScrolling lets only the first lines scroll, as a frame does that was meant for a smaller terminal and comes after it has grown, and
// tells the program that the size has changed.
func (x *tmux) limitScrolling(lines int) {
	x.t.Helper()
	tty := testenv.Must(os.OpenFile(strings.TrimSpace(x.run("display-message", "-p", "-t", "0", "#{pane_tty}")), os.O_RDWR, 0))
	defer tty.Close()
	fmt.Fprintf(tty, "\x1b7\x1b[1;%dr\x1b8", lines)
	size := testenv.Must(unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ))
	size.Col--
	must(unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, size))
	size.Col++
	must(unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, size))
}

// checkTop uses gotach top in a terminal of 80 columns, makes it larger, and quits.
func checkTop(t *testing.T, what, status string, env ...string) {
	gotach := testProgram(t, "gotach")
	// The terminal stays after the end.
	x := newTmux(t, 80, 24, gotach+" top "+what+"; echo code $?; stty -a; exec cat", env...)
	if strings.HasSuffix(status, "PLAYING") { // a short file must not end before the test
		x.shows([]string{status})
		x.keys("<", "<", "<", "<")
		status += " 0.0625x"
	}
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		if size[0] != 80 {
			x.run("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
			x.shows([]string{"GOROUTINES DURING THE WINDOW", "l latest"})
			x.limitScrolling(24)
			x.shows([]string{"GOROUTINES DURING THE WINDOW", "l latest"})
		}
		s := x.shows([]string{"gotach top", status, " until ", "on CPU", "FUNCTION", "q quit", "? keys", "space pause", "/ filter", "s sort"})
		lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
		testenv.Same(t, "lines of "+s, len(lines), size[1])
		for _, line := range lines {
			testenv.FailIf(t, utf8.RuneCountInString(line) > size[0], "a line of more than %d columns: %q", size[0], line)
		}
		testenv.FailIf(t, !strings.Contains(lines[0], status) || !strings.Contains(lines[len(lines)-1], "q quit"), "the first line lacks the state, or the last one the keys:\n%s", s)
		x.press("s", "by total")
		x.press("S", "by self")
		x.keys("/", "hash", "Enter")
		x.shows([]string{"filter hash, by self", ".hash"}, "[IO wait]")
		x.keys("Escape")
		x.shows(nil, "filter hash")
		x.press("2", "[2 Blocked]", "BLOCKED AT", "gotach.busy")
		x.press("3", "[3 Locks]", "LONGEST", "chan")
		x.press("4", "[4 Goroutines]", "CREATED BY", "gotach.watched")
		x.press("?", "any key goes back")
		x.keys("?")
		x.press("1", "FUNCTION")
	}
	x.press("Space", "‖ PAUSED")
	x.keys("l")
	x.shows(nil, "PAUSED")
	x.keys("q")
	x.shows([]string{"code 0", "echoe"}, "FUNCTION", "-echo ", "-icanon") // the terminal is as before
}

// gotach top works in tmux, at 80×24 and at 200×60, on a program that runs, by its file, its id and its URL, and on
// its file when it has ended.
func TestPeerTop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "live.tach")
	pid, address, stop := startWatched(t, file)
	t.Run("live", func(t *testing.T) {
		for name, what := range map[string]string{"file": file, "process": fmt.Sprint(pid), "URL": "http://" + address + "/"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkTop(t, what, "● LIVE")
			})
		}
	})
	stop()
	checkTop(t, file, "► PLAYING", "NO_COLOR=1")
}

// TestPeerOpens: commands open nothing that a file names, neither as a source file nor as an executable, but what the user named.
func TestPeerOpens(t *testing.T) {
	strace := testenv.Command(t, "strace", "apt-get install strace")
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "x.tach")
	must(os.Mkdir(secret, 0o700))
	named := func(name string) string {
		must(os.WriteFile(filepath.Join(secret, name), []byte("one\ntwo\nthree\n"), 0o600))
		return filepath.Join(secret, name)
	}
	writeFixture(path, func(f *fixture, _ []string) {
		frames := []tachyon.Frame{own("main.go", "main", 9)}
		for _, name := range []string{"id_rsa", "wp-config.php", "a.py", "b.c", "c.pl", "d.go"} {
			frames = append(frames, tachyon.Frame{File: named(name), Func: "main." + name, Line: 2}, tachyon.Frame{File: dir + "/none/../secret/" + name, Func: "main.up", Line: 2})
		}
		for i := range frames {
			f.add(uint64(i), 1, onCPU, frames[i:]...)
			f.add(uint64(i), 2, onCPU, frames[i:]...)
			f.goroutine(uint64(i), frames[i].Func, frames[i].File+":2")
		}
		f.session = tachyon.Session{Program: named("program"), Executable: named("executable"), BuildID: "x", GOOS: "linux", Source: "native"}
		must(f.w.AddMetadata(tachyon.KindPCs, tachyon.LeafPCs{TextStart: 1, TextSize: 99, PCs: []tachyon.LeafPC{{Addr: 2, CPU: 1, Wall: 1}}}))
	})
	log := filepath.Join(dir, "log")
	cmd := testCommand(t, "hostile")
	cmd.Args = append([]string{strace, "-f", "-qq", "-o", log, "-e", "trace=open,openat,openat2,stat,newfstatat,statx,readlink,readlinkat,execve", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Stdin = strace, strings.NewReader(path)
	testenv.Run(t, cmd)
	opened := regexp.MustCompile(`open[^"]*"[^"]*secret[^"]*".*`).FindAllString(string(testenv.Must(os.ReadFile(log))), -1)
	testenv.SameList(t, "opened", opened, nil)
}

func init() { programs["watched"] = watched }

// watched OUT is a program that writes a profile and serves httpprof.Handler. It prints its address.
func watched() {
	defer profiler.Start(profiler.Output(os.Args[1])).Stop()
	lock := make(chan struct{}, 1)
	for range 3 {
		go busy(lock)
	}
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(l.Addr())
	go http.Serve(l, httpprof.Handler())
	var b [1]byte
	os.Stdin.Read(b[:]) // until the test ends
}

func busy(lock chan struct{}) {
	for {
		lock <- struct{}{}
		hash(5)
		<-lock
		time.Sleep(time.Millisecond)
	}
}

// startWatched starts that program. It ends when stop is called.
func startWatched(t *testing.T, out string) (pid int, address string, stop func()) {
	t.Helper()
	cmd := testCommand(t, "watched", out)
	cmd.Stderr = os.Stderr
	stdin, stdout := testenv.Must(cmd.StdinPipe()), testenv.Must(cmd.StdoutPipe())
	must(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	testenv.Must(fmt.Fscan(stdout, &address))
	return cmd.Process.Pid, address, func() {
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		must(cmd.Wait())
	}
}
