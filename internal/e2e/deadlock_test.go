//go:build linux && peers

package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPeerDeadlock runs programs with a deadlock and programs that only wait for long, some of them for other programs, with and
// without a session. In the first kind the session must end with a finished file. In the second kind it must go on.
// Beside other programs a session can take long to be sure of a deadlock, so this is not for every machine.
func TestPeerDeadlock(t *testing.T) {
	bin := buildProgram(t, "deadlock")
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
			path := filepath.Join(t.TempDir(), "x.tach")
			free <- true
			all.Go(func() {
				defer func() { <-free }()
				waiting(t, bin, name, setting, path, isDead)
			})
		}
	}
	all.Wait()
}

// waiting runs one of the programs of TestPeerDeadlock and checks its end and its profile.
func waiting(t *testing.T, bin, name, setting, path string, isDead bool) {
	env := strings.Fields(setting)
	if setting != "" {
		env = append(env, "PROFILE_OUT="+path)
	}
	text, code := runFor(t, 4*time.Minute, env, bin, name)
	if isDead && (code != 2 || !strings.Contains(text, "deadlock!")) || !isDead && (code != 0 || !strings.HasSuffix(text, "ok\n")) {
		t.Errorf("%s %s: exit code %d\n%s", name, setting, code, text)
		return
	}
	if setting == "" {
		return
	}
	m, unfinished := metadata(t, path)
	if why := m.Session.Error; unfinished || isDead != strings.Contains(why, "wait for one another") {
		t.Errorf("%s %s: unfinished: %v; the session's error is %q", name, setting, unfinished, why)
	}
}
