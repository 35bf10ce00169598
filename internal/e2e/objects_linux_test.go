//go:build amd64 || arm64

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// TestObjectNames runs programs whose goroutines wait for locks in variables. Their files must name the variables:
// that of an ordinary program, of a killed one, and of one that the kernel may put at any address. That of a program
// without symbols must say why it does not.
func TestObjectNames(t *testing.T) {
	type place struct {
		symbol string
		offset uint64
	}
	locks := map[place]string{
		{"main.alone", 0}:         tachyon.ObjectMutex,
		{"main.server", 24}:       tachyon.ObjectRWMutex,
		{"main.shards", 7*16 + 8}: tachyon.ObjectMutex,
	}
	for _, c := range []struct {
		name, flag string
		kill       bool
		want       string // Session.ObjectsUnnamed
	}{
		{"ordinary", "-buildmode=exe", false, ""},
		{"killed", "-buildmode=exe", true, ""},
		{"at any address", "-buildmode=pie", false, ""},
		{"stripped", "-ldflags=-s", false, "the executable has no symbol table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "objects")
			build := exec.Command("go", "build", "-o", bin, c.flag, "./testdata/objects")
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			path := filepath.Join(t.TempDir(), "x.tach")
			env := []string{"PROFILE_OUT=" + path, "PROFILE_SOURCE=native"}
			if c.kill {
				cmd := exec.Command(bin, "wait")
				cmd.Env = append(os.Environ(), env...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer cmd.Wait()
				defer cmd.Process.Kill()
				end := time.Now().Add(time.Minute)
				for time.Now().Before(end) && (cmd.ProcessState == nil && !named(path, len(locks))) {
					time.Sleep(20 * time.Millisecond)
				}
				cmd.Process.Kill()
				cmd.Wait()
			} else if out, code := runFor(t, time.Minute, env, bin); code != 0 {
				t.Fatalf("exit code %d\n%s", code, out)
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
			if f.Unfinished() != c.kill {
				t.Errorf("unfinished: %v", f.Unfinished())
			}
			if m.Session.Objects == tachyon.OnlyChannels {
				return // no lock is known with Go 1.25, and channels are in the heap
			}
			if m.Session.ObjectsUnnamed != c.want {
				t.Errorf("objects have no names because %q, want %q", m.Session.ObjectsUnnamed, c.want)
			}
			static, found := 0, 0
			for _, o := range m.Objects {
				if o.Static != 0 {
					static++
				}
				kind, ok := locks[place{o.Symbol, o.Offset}]
				if ok && o.Kind == kind {
					found++
				} else if o.Symbol != "" {
					t.Errorf("there is no such lock: %+v", o)
				}
			}
			want := len(locks)
			if c.want != "" {
				want = 0
			}
			if static != len(locks) || found != want {
				t.Errorf("%d objects in variables, %d with the right names, want %d and %d: %+v", static, found, len(locks), want, m.Objects)
			}
		})
	}
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
