//go:build amd64 || arm64

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// TestObjectNames runs programs whose goroutines wait for locks in variables. Their files must name the variables:
// that of an ordinary program and that of a killed one. That of a program without symbols must say why it does not.
func TestObjectNames(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	bin := buildProgram(t, "objects")
	t.Run("ordinary", func(t *testing.T) { objectNames(t, bin, false, "") })
	t.Run("killed", func(t *testing.T) { objectNames(t, bin, true, "") })
	t.Run("stripped", func(t *testing.T) {
		objectNames(t, buildProgram(t, "objects", "-ldflags=-s"), false, "the executable has no symbol table")
	})
}

// place is where a lock lies.
type place struct {
	symbol string
	offset uint64
}

// plantedLocks are the locks of the program.
var plantedLocks = map[place]string{
	{"main.alone", 0}:         tachyon.ObjectMutex,
	{"main.server", 24}:       tachyon.ObjectRWMutex,
	{"main.shards", 7*16 + 8}: tachyon.ObjectMutex,
}

// objectNames runs the program objects, kills it if wanted, and checks which names its file has, or why it has none.
func objectNames(t *testing.T, bin string, kill bool, unnamed string) {
	path := filepath.Join(t.TempDir(), "x.tach")
	env := []string{"PROFILE_OUT=" + path, "PROFILE_SOURCE=native"}
	if kill {
		cmd := exec.Command(bin, "wait")
		cmd.Env = append(os.Environ(), env...)
		testenv.OK(t, cmd.Start())
		testenv.Await(func() bool { return named(path, len(plantedLocks)) })
		cmd.Process.Kill()
		cmd.Wait()
	} else if out, code := ends(t, "", env, bin); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	m, unfinished := metadata(t, path)
	testenv.Same(t, "unfinished", unfinished, kill)
	if m.Session.Objects == tachyon.OnlyChannels {
		return // no lock is known with Go 1.25, and channels are in the heap
	}
	testenv.Same(t, "why objects have no names", m.Session.ObjectsUnnamed, unnamed)
	static, found := 0, 0
	for _, o := range m.Objects {
		if o.Static != 0 {
			static++
		}
		if kind, ok := plantedLocks[place{o.Symbol, o.Offset}]; ok && o.Kind == kind {
			found++
		} else if o.Symbol != "" {
			t.Errorf("there is no such lock: %+v", o)
		}
	}
	want := len(plantedLocks)
	if unnamed != "" {
		want = 0
	}
	testenv.FailIf(t, static != len(plantedLocks) || found != want, "%d objects in variables, %d with the right names, want %d and %d: %+v", static, found, len(plantedLocks), want, m.Objects)
}

// named reports whether the file of a running program has the names of n objects.
func named(path string, n int) bool {
	f, err := reader.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	m, err := f.Metadata()
	if err != nil {
		return false
	}
	for _, o := range m.Objects {
		if o.Symbol != "" {
			n--
		}
	}
	return n <= 0 || m.Session != nil && m.Session.Objects == tachyon.OnlyChannels
}

// TestSystemCalls runs sessions under a policy that allows only the system calls that package syscalls
// lists. It also checks that the policy has an effect: without one of them the program ends.
func TestSystemCalls(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	bin := buildProgram(t, "syscalls")
	var all sync.WaitGroup
	defer all.Wait()
	for _, source := range []string{"native", "portable"} {
		for _, without := range []string{"", "clock_gettime"} {
			env := []string{"PROFILE_SOURCE=" + source, "PROFILE_SYNC=100ms", "PROFILE_OUT=" + filepath.Join(t.TempDir(), "x.tach")}
			all.Go(func() {
				text, code := ends(t, "", env, bin, source, without)
				right := code == 0 && strings.HasSuffix(text, "ok\n")
				if without != "" {
					right = code == 2 && strings.Contains(text, "SIGSYS")
				}
				testenv.FailIf(t, !right, "%s without %q: exit code %d\n%.3000s", source, without, code, text)
			})
		}
	}
}
