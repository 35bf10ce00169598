//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	var all sync.WaitGroup
	free := make(chan bool, 16) // the programs hardly use the CPU, so many can run at once
	for _, setting := range []string{"", "PROFILE_SOURCE=native GOMAXPROCS=2", "PROFILE_SOURCE=portable GOMAXPROCS=2", "PROFILE_SOURCE=native GOMAXPROCS=1", "PROFILE_SOURCE=portable GOMAXPROCS=1"} {
		for _, name := range append(dead, alive...) {
			isDead := slices.Contains(dead, name)
			if setting == "" && !isDead || strings.Contains(setting, "GOMAXPROCS=1") && isDead {
				continue // nothing to compare; with GOMAXPROCS=1 a session cannot find a deadlock
			}
			free <- true
			all.Go(func() {
				defer func() { <-free }()
				if err := runWaiting(t, bin, name, setting, isDead); err != nil {
					t.Errorf("%s %s: %v", name, setting, err)
				}
			})
		}
	}
	all.Wait()
}

// runWaiting runs one of the programs of TestDeadlock and checks its end and its profile.
func runWaiting(t *testing.T, bin, name, setting string, isDead bool) error {
	env := strings.Fields(setting)
	path := filepath.Join(t.TempDir(), "x.tach")
	if setting != "" {
		env = append(env, "PROFILE_OUT="+path)
	}
	text, code, err := runUntil(t.Context(), 4*time.Minute, env, bin, name)
	if err != nil {
		return err
	}
	if isDead {
		if code != 2 || !strings.Contains(text, "deadlock!") {
			return fmt.Errorf("exit code %d\n%s", code, text)
		}
		if setting == "" {
			return nil
		}
	} else if code != 0 || !strings.HasSuffix(text, "ok\n") {
		return fmt.Errorf("exit code %d\n%s", code, text)
	}
	f, err := reader.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := f.Metadata()
	if err != nil {
		return err
	}
	if why := m.Session.Error; f.Unfinished() || isDead != strings.Contains(why, "wait for one another") {
		return fmt.Errorf("unfinished: %v; the session's error is %q", f.Unfinished(), why)
	}
	return nil
}

// runFor is runUntil for a program that must end within limit.
func runFor(t *testing.T, limit time.Duration, env []string, bin string, args ...string) (string, int) {
	t.Helper()
	out, code, err := runUntil(t.Context(), limit, env, bin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out, code
}

// runUntil runs a program and returns its output and exit code. It returns an error if the program has not ended
// after limit.
func runUntil(ctx context.Context, limit time.Duration, env []string, bin string, args ...string) (string, int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return "", 0, fmt.Errorf("%w after %v\n%s", err, limit, out)
	}
	return string(out), cmd.ProcessState.ExitCode(), nil
}
