//go:build linux

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/reader"
)

// TestDeadlock runs programs with a deadlock and programs that only wait for long, with and without a
// session. In the first kind the session must end with a finished file. In the second kind it must go on.
func TestDeadlock(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "deadlock")
	build := exec.Command("go", "build", "-o", bin, "./testdata/deadlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dead := []string{"channel", "nil", "mutex", "group", "cond", "select", "goexit", "cancelled timer", "after work"}
	alive := []string{"sleep", "after", "afterfunc", "timers", "ticker", "fast ticker", "deadline", "syscall", "command", "pipe", "pipe alone", "signal"}
	for _, setting := range []string{"", "PROFILE_SOURCE=native GOMAXPROCS=2", "PROFILE_SOURCE=portable GOMAXPROCS=2", "PROFILE_SOURCE=native GOMAXPROCS=1", "PROFILE_SOURCE=portable GOMAXPROCS=1"} {
		for _, name := range append(dead, alive...) {
			isDead := slices.Contains(dead, name)
			if setting == "" && !isDead || strings.Contains(setting, "GOMAXPROCS=1") && isDead {
				continue // nothing to compare; with GOMAXPROCS=1 a session cannot find a deadlock
			}
			t.Run(name+" "+setting, func(t *testing.T) {
				t.Parallel()
				env := strings.Fields(setting)
				path := filepath.Join(t.TempDir(), "x.tach")
				if setting != "" {
					env = append(env, "PROFILE_OUT="+path)
				}
				text, code := runFor(t, 4*time.Minute, env, bin, name)
				if isDead {
					if code != 2 || !strings.Contains(text, "deadlock!") {
						t.Fatalf("exit code %d\n%s", code, text)
					}
					if setting == "" {
						return
					}
				} else if code != 0 || !strings.HasSuffix(text, "ok\n") {
					t.Fatalf("exit code %d\n%s", code, text)
				}
				f, err := reader.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				m, err := f.Metadata()
				if err != nil {
					t.Fatal(err)
				}
				if why := m.Session.Error; f.Unfinished() || isDead != strings.Contains(why, "wait for one another") {
					t.Errorf("unfinished: %v; the session's error is %q", f.Unfinished(), why)
				}
			})
		}
	}
}

// runFor runs a program that must end within limit. It returns the program's output and exit code.
func runFor(t *testing.T, limit time.Duration, env []string, bin string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("%v after %v\n%s", err, limit, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
