//go:build linux && peers

package e2e

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestPeerDeadlock runs programs with a deadlock and programs that only wait for long, some of them for other programs, with and
// without a session. In the first kind the session must end with a finished file. In the second kind it must go on.
// They wait for minutes in sum.
func TestPeerDeadlock(t *testing.T) {
	bin := buildProgram(t, "deadlock")
	dead := []string{"channel", "nil", "mutex", "group", "cond", "select", "goexit", "cancelled timer", "after work"}
	alive := []string{"sleep", "after", "afterfunc", "timers", "ticker", "fast ticker", "deadline", "syscall", "command", "pipe", "pipe alone", "signal"}
	var all sync.WaitGroup
	free := make(chan bool, 16) // the programs hardly use the CPU, so many can run at once
	for _, setting := range []string{"", "PROFILE_SOURCE=native GOMAXPROCS=2", "PROFILE_SOURCE=portable GOMAXPROCS=2", "PROFILE_SOURCE=native GOMAXPROCS=1", "PROFILE_SOURCE=portable GOMAXPROCS=1"} {
		for _, name := range append(dead, alive...) {
			isDead := slices.Contains(dead, name)
			if setting == "" && !isDead || setting == "PROFILE_SOURCE=portable GOMAXPROCS=1" && isDead {
				continue // nothing to compare; with GOMAXPROCS=1 the portable source cannot find a deadlock
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
