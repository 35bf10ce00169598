package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
)

// A pty is a terminal that a command runs in.
type pty struct {
	*exec.Cmd
	master *os.File
	ended  chan struct{} // all of the screen is there

	mu     sync.Mutex
	screen bytes.Buffer
}

// newPTY runs gotach in a terminal of a size.
func newPTY(t *testing.T, width, height int, args ...string) *pty {
	t.Helper()
	master := testenv.Must(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NONBLOCK, 0))
	p := &pty{master: master, Cmd: testCommand(t, "gotach", args...), ended: make(chan struct{})}
	must(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number := testenv.Must(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))
	slave := testenv.Must(os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0))
	p.size(width, height)
	p.Env = append(p.Env, "TERM=xterm-256color", "LC_ALL=C.UTF-8", "COLUMNS=", "NO_COLOR=")
	p.Stdin, p.Stdout, p.Stderr = slave, slave, slave
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(p.Start())
	must(slave.Close())
	go func() {
		defer close(p.ended)
		b := make([]byte, 1<<16)
		for {
			n, err := master.Read(b)
			if err != nil { // EIO: nobody has the terminal open any more
				return
			}
			p.mu.Lock()
			p.screen.Write(b[:n])
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it has ended if nothing is wrong
		_ = p.Wait()
		<-p.ended
		must(master.Close())
	})
	return p
}

// size changes the terminal's size.
func (p *pty) size(width, height int) {
	must(unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)}))
}

// text returns all that was written to the terminal.
func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String()
}

// await waits until the terminal got a text.
func (p *pty) await(t *testing.T, text string) {
	t.Helper()
	has := false
	testenv.Await(func() bool { has = bytes.Contains([]byte(p.text()), []byte(text)); return has })
	testenv.StopIf(t, !has, "no %q in %q", text, p.text())
}

// end waits until the command has ended, and returns its exit code and all that it wrote.
func (p *pty) end() (code int, text string) {
	<-p.ended
	_ = p.Wait() // the code says it
	return p.ProcessState.ExitCode(), p.text()
}

// press sends keys. A command that has ended gets none.
func (p *pty) press(keys string) { _, _ = p.master.WriteString(keys) }

// On a terminal, where there are colours, commands write no other escape sequence. What top writes has nothing of what others
// chose.
func TestPrintedTerminal(t *testing.T) {
	testenv.Long(t)
	_, tach, empty, _, _ := evilFiles(t)
	for _, args := range [][]string{{"report", tach}, {"verify", tach, empty}, {"convert", tach, "-o", "-", "--to", "collapsed"}} {
		p := newPTY(t, 100, 40, args...)
		_, text := p.end()
		text = strings.ReplaceAll(text, "\r", "") // of the terminal and of a progress bar
		testenv.Same(t, args, unsafe(text), "")
		testenv.Has(t, args[0], text, "owned")
		testenv.Same(t, fmt.Sprintf("%q: colours", args), strings.Contains(text, "\x1b["), args[0] != "convert")
	}
	server := "http://" + hostileServer(t) + "/"
	for what, want := range map[string]string{tach: "owned", server: "owned", server + evil: "it is no valid URL"} {
		p := newPTY(t, 100, 40, "top", what)
		if what == tach {
			p.await(t, "main.")
			p.press("q")
		}
		_, text := p.end()
		for _, bad := range []string{"\x1b]0;owned", "\x1b[35m", "\u009b", "\u202e", "\ngotach: forged"} {
			testenv.FailIf(t, strings.Contains(text, bad), "top %q writes %q", what, bad)
		}
		testenv.Has(t, "top "+what, text, want)
	}
}

// gotach top records a program from outside that writes no profile, and leaves nothing.
func TestTopOutside(t *testing.T) {
	testenv.Long(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	program := testCommand(t, "gotach", "report", "-")
	in := testenv.Must(program.StdinPipe())
	must(program.Start())
	defer func() {
		must(in.Close())
		_ = program.Wait() // nothing that it can read was written
	}()
	p := newPTY(t, 100, 40, "top", fmt.Sprint(program.Process.Pid))
	p.await(t, ", from outside")
	p.await(t, "os.(*File).Read")
	p.press("q")
	code, text := p.end()
	testenv.Same(t, text+": exit code", code, 0)
	testenv.Empty(t, temp)

	p = newPTY(t, 100, 40, "top", "1073741824")
	code, text = p.end()
	testenv.Same(t, text+": exit code", code, 1)
	testenv.Has(t, "top", text, "no such process")
}

// gotach top works in a terminal that does not know its size, as those of containers, and in tiny and huge ones, also when the
// size changes.
func TestTopTerminals(t *testing.T) {
	testenv.Long(t)
	file := filepath.Join(t.TempDir(), "app.tach")
	writeFixture(file, contends)
	for _, c := range []struct {
		width, height int
		want          string
	}{{0, 0, "main."}, {10_000, 1, ""}} {
		t.Run(fmt.Sprintf("%d×%d", c.width, c.height), func(t *testing.T) {
			t.Parallel()
			p := newPTY(t, c.width, c.height, "top", file)
			p.await(t, "\x1b[?1049h") // it draws
			p.await(t, c.want)
			for _, size := range [][2]int{{80, 0}, {0, 0}, {1, 1}, {1, 1000}, {300, 2}, {80, 24}} {
				for _, key := range []string{"0", "3", "?", "?", "/", "\x15", "m", "\r", "\x1b[F", "\x1b[5~"} {
					p.press(key)
				}
				p.size(size[0], size[1])
			}
			p.press("1")
			p.await(t, "main.")
			p.press("\x03")
			code, text := p.end()
			testenv.FailIf(t, code != exitOK || strings.Contains(text, "panic"), "%d×%d: exit %d: %q", c.width, c.height, code, text[max(0, len(text)-2000):])
		})
	}
}

// gotach top waits for no pipe, and reads no device.
func TestTopIrregular(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.tach")
	must(unix.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{pipe: "it is a pipe", "/dev/zero": "it is a device"} {
		p := newPTY(t, 80, 24, "top", path)
		_, text := p.end()
		testenv.Has(t, "top "+path, text, want)
	}
}

// The program that opens a page is one of TestMain: it writes what it is to open to the file $OPENED.
func init() {
	programs["xdg-open"] = func() {
		name := os.Getenv("OPENED")
		must(os.WriteFile(name+".part", []byte(strings.Join(os.Args[1:], "\n")), 0o600))
		must(os.Rename(name+".part", name))
	}
}

// TestView: the command shows the files of a folder, those that come later too, and opens the page with xdg-open. Without a
// display, with --no-open, and if that fails it only prints the address. It ends at Ctrl-C with success.
func TestView(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	path, none := "PATH="+filepath.Dir(testProgram(t, "xdg-open")), t.TempDir()
	for i, c := range []struct {
		name   string
		env    []string
		args   []string
		opens  bool
		stderr string
	}{
		{"a display, and a file comes", []string{path, "DISPLAY=:7"}, nil, true, ""},
		{"Wayland", []string{path, "DISPLAY=", "WAYLAND_DISPLAY=wayland-0"}, nil, true, ""},
		{"no display", []string{path, "DISPLAY=", "WAYLAND_DISPLAY="}, nil, false, "there is no display"},
		{"--no-open", []string{path, "DISPLAY=:7"}, []string{"--no-open"}, false, ""},
		{"no xdg-open", []string{"PATH=" + none, "DISPLAY=:7"}, nil, false, "none was opened"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, opened := t.TempDir(), filepath.Join(t.TempDir(), "opened")
			writeFile(t, filepath.Join(dir, "x.1.tach"), 1, 100)
			second := func() { writeFile(t, filepath.Join(dir, "x.2.tach"), 2, 50) }
			if i > 0 {
				second()
			}
			cmd := testCommand(t, "gotach", append(append([]string{"view"}, c.args...), dir)...)
			cmd.Env = append(append(cmd.Env, c.env...), "OPENED="+opened)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out := bufio.NewReader(testenv.Must(cmd.StdoutPipe()))
			must(cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			url := strings.TrimSpace(testenv.Must(out.ReadString('\n')))
			body, status := fetch(url)
			testenv.FailIf(t, status != http.StatusOK || !strings.HasPrefix(body, "<!doctype html>"), "%s: %d %.100s", url, status, body)
			_, status = fetch(url[:len(url)-10] + "/")
			testenv.Same(t, "status, with a wrong token", status, http.StatusNotFound)
			page := getter(fetch).waitFor(t, url, "", 0)
			if c.opens {
				testenv.Await(func() bool { _, err := os.Stat(opened); return err == nil })
			}
			text, _ := os.ReadFile(opened)
			testenv.FailIf(t, c.opens && string(text) != url || !c.opens && len(text) > 0, "%s: the browser was opened with %q", c.name, text)
			if i == 0 {
				second()
				page = getter(fetch).waitFor(t, url, "", page.Generation)
			}
			testenv.Same(t, c.name+": samples", page.Head.Sides[0].Samples, 150)
			must(cmd.Process.Signal(syscall.SIGINT)) // Ctrl-C
			testenv.Same(t, "printed after Ctrl-C", string(testenv.Must(io.ReadAll(out))), "")
			testenv.Fails(t, "Ctrl-C", cmd.Wait(), "")
			got := stderr.String()
			testenv.FailIf(t, !strings.Contains(got, c.stderr) || (c.stderr == "") == strings.Contains(got, "none was opened"), "%s: it says %q", c.name, got)
		})
	}
}
