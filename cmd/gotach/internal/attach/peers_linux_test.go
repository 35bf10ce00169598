//go:build peers && (amd64 || arm64)

package attach

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// versions are those whose offsets are known.
var versions = []string{"go1.19.13", "go1.20.14", "go1.21.13", "go1.22.12", "go1.23.12", "go1.24.13", "go1.25.3", "go1.26.8", "go1.27.0"}

// Programs of all versions whose offsets are known say of themselves what is read of them.
func TestPeerVersions(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			program := build(t, v, "-ldflags=-s -w")
			compare(t, start(t, program, "move", "burn"))
			testInvariant(t, program)
		})
	}
}

// Of programs of older versions it is known which channels goroutines wait for, all of them and no others, and nothing of what else they wait for.
func TestPeerChannels(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(buildOf(t, "channels", v, "-ldflags=-s -w"))
			in, out := testenv.Must(cmd.StdinPipe()), testenv.Must(cmd.StdoutPipe())
			testenv.OK(t, cmd.Start())
			defer func() {
				testenv.OK(t, in.Close())
				testenv.OK(t, cmd.Wait())
			}()
			var want []string
			for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != ""; {
				want = append(want, lines.Text())
			}
			path := filepath.Join(t.TempDir(), "x.tach")
			recordTo(t, &target{pid: cmd.Process.Pid}, path, 500, func(stop func()) { stop() })
			l, _, err := layoutOf(v)
			testenv.OK(t, err)
			got := channelsIn(t, path, !l.Semaphores)
			if slices.Sort(want); !slices.Equal(got, want) || len(want) != 4 {
				t.Errorf("it waits for %q, read was %q", want, got)
			}
		})
	}
}

// channelsIn returns the functions that wait in a profile, each with address and capacity of what it waits for. Waits for locks are left out unless they
// are asked for.
func channelsIn(t *testing.T, path string, locks bool) (list []string) {
	src, objects := withObjects(t, path)
	for s := range testenv.All(t, src.Samples()) {
		stack := src.AppendStack(nil, s.Stack)
		x, ok := objects[src.Frames()[stack[0]].Line]
		if !ok || x.Kind == tachyon.ObjectMutex && !locks {
			continue
		}
		members := x.Members
		if len(members) == 0 {
			members = []int32{x.Number}
		}
		for _, id := range stack {
			name, ours := strings.CutPrefix(src.Frames()[id].Func, "main.")
			for _, m := range members {
				if at := fmt.Sprintf("%s %#x %d", name, objects[m].Addr, objects[m].Capacity); ours && name != "main" && !slices.Contains(list, at) {
					list = append(list, at)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// Servers of Debian, which others have built, say of themselves what is read of them.
func TestPeerDebian(t *testing.T) {
	dir := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), nil, 0o644))
	for _, s := range []struct {
		program, install, port string
		args                   []string
		least                  int
	}{
		{"prometheus", "prometheus", "19190", []string{"--config.file=prometheus.yml", "--web.listen-address=127.0.0.1:19190", "--storage.tsdb.path=prometheus"}, 15},
		{"etcd", "etcd-server", "19191", []string{"--enable-pprof", "--data-dir=etcd", "--listen-client-urls=http://127.0.0.1:19191",
			"--advertise-client-urls=http://127.0.0.1:19191", "--listen-peer-urls=http://127.0.0.1:19192"}, 20},
		{"nats-server", "nats-server", "19193", []string{"-a", "127.0.0.1", "-p", "19194", "--profile", "19193"}, 5},
		{"caddy", "caddy", "2019", []string{"run"}, 3},
		{"syncthing", "syncthing", "19195", []string{"serve", "--no-browser", "--home=syncthing", "--gui-address=127.0.0.1:19196"}, 30},
	} {
		t.Run(s.program, func(t *testing.T) {
			cmd := exec.Command(testenv.Command(t, s.program, "apt-get install "+s.install), s.args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "STPROFILER=127.0.0.1:19195", "STMONITORED=yes") // one process
			testenv.OK(t, cmd.Start())
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			address := "http://127.0.0.1:" + s.port + "/debug/pprof/goroutine?debug=2"
			var other []string // goroutines that are the same before and after, and are read differently
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				p, err := Open(cmd.Process.Pid)
				if err == nil {
					other = nil
					before := own(address)
					list, _, err := p.Goroutines()
					testenv.OK(t, err)
					same := 0
					for _, g := range list {
						want, ok := before[g.ID]
						got := instant.Goroutine{ID: g.ID, Parent: g.Parent, State: g.State, Frames: shownFrames(g.Frames), CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt}
						if ok && reflect.DeepEqual(got, want) {
							same++
						} else if again := own(address); ok && want.State != "running" && reflect.DeepEqual(again[g.ID], want) && g.State != "running" && g.State != "runnable" {
							other = append(other, fmt.Sprintf("got  %+v\nwant %+v", got, want))
						}
					}
					if len(other) == 0 && same >= s.least { // one that has moved meanwhile and is back stays where it is in another round
						t.Logf("%d of %d goroutines are the same", same, len(list))
						return
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("the server did not start, or is not read as it says: %v\n%s", err, strings.Join(other, "\n"))
				}
			}
		})
	}
}

// own returns what a server says of itself, nothing if it does not answer yet.
func own(address string) map[uint64]instant.Goroutine {
	r, err := http.Get(address)
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	return parseStack(string(testenv.Must(io.ReadAll(r.Body))))
}

// An ordinary user reads its own processes, and is told why it may not read others. The test binary is run again as that user.
func TestPeerUsers(t *testing.T) {
	if pid := os.Getenv("GOTACH_ATTACH_PID"); pid != "" {
		n := testenv.Must(strconv.Atoi(pid))
		p, err := Open(n)
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		list, _, err := p.Goroutines()
		fmt.Println("read:", len(list), err)
		return
	}
	if os.Geteuid() != 0 {
		testenv.Skip(t, "it needs root, to be another user")
	}
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	dir := testenv.Must(os.MkdirTemp("/tmp", "attach"))
	defer os.RemoveAll(dir)
	testenv.OK(t, os.Chmod(dir, 0o755))
	copied := func(from, name string, mode os.FileMode) string {
		to := filepath.Join(dir, name)
		testenv.OK(t, os.WriteFile(to, testenv.Must(os.ReadFile(from)), mode))
		testenv.OK(t, os.Chmod(to, mode))
		return to
	}
	program := copied(build(t, "", "-ldflags=-s -w"), "target", 0o755)
	self := copied(testenv.Must(os.Executable()), "self", 0o755)
	ask := func(pid int) string {
		cmd := exec.Command(self, "-test.run=^TestPeerUsers$")
		cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, []string{"GOTACH_ATTACH_PID=" + strconv.Itoa(pid)}, nobody
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, c := range []struct {
		attr *syscall.SysProcAttr
		args []string
		want string
	}{
		{nobody, nil, "read: 3"},
		{nil, nil, "it is one of user root; run gotach as that user, or with sudo"},
		{nobody, []string{"hide"}, "its dumpable flag is 0"},
	} {
		if got := ask(startAs(t, c.attr, program, c.args...).pid); !strings.Contains(got, c.want) {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
}
