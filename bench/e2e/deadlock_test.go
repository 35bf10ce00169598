//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// TestDeadlock: a session ends when its program cannot go on, so that the runtime says so, also if the program has had work.
func TestDeadlock(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	testenv.Again(t)
	bin := buildProgram(t, "deadlock")
	var all sync.WaitGroup
	for _, setting := range []string{"PROFILE_SOURCE=native GOMAXPROCS=1", "PROFILE_SOURCE=native GOMAXPROCS=2", "PROFILE_SOURCE=portable GOMAXPROCS=2"} {
		path := filepath.Join(t.TempDir(), "x.tach")
		all.Go(func() { waiting(t, bin, "after work", setting, path, true) })
	}
	all.Wait()
}

// waiting runs one of the programs of TestPeerDeadlock and checks its end and its profile.
func waiting(t *testing.T, bin, name, setting, path string, isDead bool) {
	env := strings.Fields(setting)
	if setting != "" {
		env = append(env, "PROFILE_OUT="+path)
	}
	text, code := ends(t, "", env, bin, name)
	if isDead && (code != 2 || !strings.Contains(text, "deadlock!")) || !isDead && (code != 0 || !strings.HasSuffix(text, "ok\n")) {
		t.Errorf("%s %s: exit code %d\n%s", name, setting, code, text)
		return
	}
	if setting == "" {
		return
	}
	m, unfinished := metadata(t, path)
	why := m.Session.Error
	testenv.FailIf(t, unfinished || isDead != strings.Contains(why, "wait for one another"), "%s %s: unfinished: %v; the session's error is %q", name, setting, unfinished, why)
}
