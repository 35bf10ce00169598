package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
)

// gotach top works in a terminal that does not know its size, as those of containers, and in tiny and huge ones, also when the
// size changes.
func TestTopTerminals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.tach")
	writeFixture(file, contends)
	for _, c := range []struct {
		width, height int
		want          string
	}{{0, 0, "main."}, {80, 0, "main."}, {1, 1, ""}, {10_000, 1, ""}, {1, 1000, ""}} {
		t.Run(fmt.Sprintf("%d×%d", c.width, c.height), func(t *testing.T) {
			t.Parallel()
			p := newPTY(t, c.width, c.height, "top", file)
			p.await(t, "\x1b[?1049h") // it draws
			p.await(t, c.want)
			for _, size := range [][2]int{{0, 0}, {1, 1}, {300, 2}, {80, 24}} {
				for _, key := range []string{"0", "3", "?", "?", "/", "\x15", "m", "\r", "\x1b[F", "\x1b[5~"} {
					p.press(key)
				}
				p.size(size[0], size[1])
			}
			p.press("1")
			p.await(t, "main.")
			p.press("\x03")
			if code, text := p.end(); code != exitOK || strings.Contains(text, "panic") {
				t.Errorf("%d×%d: exit %d: %q", c.width, c.height, code, text[max(0, len(text)-2000):])
			}
		})
	}
}

// gotach top waits for no pipe, and reads no device.
func TestTopIrregular(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.tach")
	must(unix.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{pipe: "it is a pipe", "/dev/zero": "it is a device"} {
		p := newPTY(t, 80, 24, "top", path)
		testenv.Await(func() bool {
			select {
			case <-p.ended:
				return true
			default:
				return false
			}
		})
		if text := p.text(); !strings.Contains(text, want) {
			t.Errorf("top %s: %q", path, text)
		}
	}
}
