package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
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
	if !has {
		t.Fatalf("no %q in %q", text, p.text())
	}
}

// end waits until the command has ended, and returns its exit code and all that it wrote.
func (p *pty) end() (code int, text string) {
	<-p.ended
	_ = p.Wait() // the code says it
	return p.ProcessState.ExitCode(), p.text()
}

// press sends keys. A command that has ended gets none.
func (p *pty) press(keys string) { _, _ = p.master.WriteString(keys) }
