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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// versions are those whose offsets are known.
var versions = []string{"go1.19.13", "go1.20.14", "go1.21.13", "go1.22.12", "go1.23.12", "go1.24.13", "go1.25.3", "go1.26.8", "go1.27.0"}

// byDay leaves the older versions but the first for the night.
func byDay(t *testing.T, v string) {
	if slices.Contains([]string{"go1.20.14", "go1.21.13", "go1.22.12", "go1.23.12", "go1.24.13"}, v) {
		testenv.Night(t, "each toolchain builds its standard library")
	}
}

// Programs of all versions whose offsets are known say of themselves what is read of them.
func TestPeerVersions(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			byDay(t, v)
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
			byDay(t, v)
			t.Parallel()
			x := launch(t, nil, buildOf(t, "channels", v, "-ldflags=-s -w"))
			var want []string
			for lines := bufio.NewScanner(x.out); lines.Scan() && lines.Text() != ""; {
				want = append(want, lines.Text())
			}
			path := filepath.Join(t.TempDir(), "x.tach")
			recordTo(t, x, path, 500, func(stop func()) { stop() })
			l, _ := testenv.Must2(layoutOf(v))
			got := channelsIn(t, path, !l.Semaphores)
			testenv.SameList(t, "it waits for", got, slices.Sorted(slices.Values(want)))
			testenv.Same(t, "channels", len(want), 4)
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
				p, err := Open(t.Context(), cmd.Process.Pid)
				if err == nil {
					other = nil
					before := said(address)
					list, _ := testenv.Must2(p.Goroutines())
					same := 0
					for _, g := range list {
						want, ok := before[g.ID]
						got := instant.Goroutine{ID: g.ID, Parent: g.Parent, State: g.State, Frames: shownFrames(g.Frames), CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt}
						if ok && reflect.DeepEqual(got, want) {
							same++
						} else if again := said(address); ok && want.State != "running" && reflect.DeepEqual(again[g.ID], want) && g.State != "running" && g.State != "runnable" {
							other = append(other, fmt.Sprintf("got  %+v\nwant %+v", got, want))
						}
					}
					if len(other) == 0 && same >= s.least { // one that has moved meanwhile and is back stays where it is in another round
						t.Logf("%d of %d goroutines are the same", same, len(list))
						return
					}
				}
				testenv.StopIf(t, time.Now().After(deadline), "the server did not start, or is not read as it says: %v\n%s", err, strings.Join(other, "\n"))
			}
		})
	}
}

// said returns what a server says of itself, nothing if it does not answer yet.
func said(address string) map[uint64]instant.Goroutine {
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
		p, err := Open(t.Context(), n)
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
		testenv.StopIf(t, err != nil && !errors.As(err, new(*exec.ExitError)), "%v", err)
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
		testenv.Has(t, "another user's process", ask(startAs(t, c.attr, program, c.args...).pid), c.want)
	}
	sleep := copied("/bin/sleep", "sleep", 0o755)
	x := launch(t, nobody, sleep, "60")
	testenv.OK(t, os.Remove(sleep))
	testenv.Has(t, "what was deleted", ask(x.pid), "(sleep): not a Go program, or a packed executable; only root may read what was deleted or replaced on disk, as "+sleep+" was")
}

// Recording only reads: the program gets no signal of others and opens no file, and gotach traces, signals and writes to nothing of it.
func TestPeerReads(t *testing.T) {
	strace := testenv.Command(t, "strace", "apt-get install strace")
	dir := t.TempDir()
	gotach := testenv.Must(testenv.BuildGotach(dir))
	x := start(t, build(t, "", "-ldflags=-s -w"), "move", "burn")
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
	watch := exec.Command(strace, "-f", "-qq", "-o", theirs, "-p", fmt.Sprint(x.pid))
	testenv.OK(t, watch.Start())
	testenv.Await(func() bool { b, _ := os.ReadFile(theirs); return len(b) > 0 })
	testenv.Run(t, exec.Command(strace, "-f", "-qq", "-o", ours, gotach, "record", fmt.Sprint(x.pid), "-d", "300ms", "-o", filepath.Join(dir, "x.tach")))
	testenv.OK(t, watch.Process.Signal(syscall.SIGINT))
	_ = watch.Wait() // it ends by the signal
	own := regexp.MustCompile(fmt.Sprintf(`--- SIG\w+ \{.*si_pid=%d\b`, x.pid))
	for line := range strings.Lines(string(testenv.Must(os.ReadFile(theirs)))) {
		testenv.FailIf(t, strings.Contains(line, "--- SIG") && !own.MatchString(line) || strings.Contains(line, " open"), "the program: %s", line)
	}
	calls := string(testenv.Must(os.ReadFile(ours)))
	testenv.FailIf(t, !strings.Contains(calls, fmt.Sprintf("process_vm_readv(%d,", x.pid)), "gotach did not read the program's memory")
	forbidden := regexp.MustCompile(fmt.Sprintf(`\b(ptrace|process_vm_writev|pidfd_\w+|process_madvise)\(|\bt?g?kill\(-?%d\b|sigqueueinfo\(%[1]d\b|"/proc/%[1]d\b.*(O_WRONLY|O_RDWR|O_CREAT)`, x.pid))
	for line := range strings.Lines(calls) {
		testenv.FailIf(t, forbidden.MatchString(line), "gotach: %s", line)
	}
}

// A program in a container, with pid and mount namespaces and a root folder of its own, is read from the host and from a container beside it, which
// shares only the pid namespace. Neither has its executable at the same path. What runs is read by pauses, of threads that have other ids in the container.
func TestPeerNamespaces(t *testing.T) {
	unshare, nsenter := testenv.Command(t, "unshare", "apt-get install util-linux"), testenv.Command(t, "nsenter", "apt-get install util-linux")
	args := []string{"--pid", "--mount", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command(unshare, append(args, "true")...).CombinedOutput(); err != nil {
		testenv.Skip(t, fmt.Sprintf("unshare: %v: %s", err, out))
	}
	dir := t.TempDir()
	const contain = `mount -t tmpfs none "$0"; mkdir "$0/proc"; mount -t proc none "$0/proc"; cp "$1" "$0/app"; shift; exec chroot "$0" /app "$@"`
	x := start(t, unshare, append(args, "sh", "-ec", contain, dir, build(t, "", "-ldflags=-s -w", "-tags=netgo"), "move", "burn")...)
	_ = testenv.Must(fmt.Sscan(string(testenv.Must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", x.pid)))), &x.pid))
	app := filepath.Join(dir, "app")
	testenv.Is(t, "the executable in this namespace", testenv.Err(os.Stat(app)), os.ErrNotExist)
	compare(t, x)
	check := func(from, path string, pid int) {
		s := testenv.Metadata(t, reader.Open, path).Session
		testenv.FailIf(t, s.Executable != app || s.PID != pid || s.MaxGoroutines < 31 || s.TicksReached == 0, "%s: %+v", from, s)
		testenv.Same(t, from+", by pauses: goroutines that compute", thoseIn(t, testenv.Closes(t, testenv.Must(reader.Open(path))), "sha256.Sum256"), 1)
	}
	host := filepath.Join(dir, "host.tach")
	recordTo(t, x, host, 50, func(stop func()) { stop() }, "pauses")
	check("from the host", host, x.pid)
	gotach, beside := testenv.Must(testenv.BuildGotach(dir)), filepath.Join(dir, "beside.tach")
	testenv.Run(t, exec.Command(nsenter, fmt.Sprintf("--pid=/proc/%d/ns/pid", x.pid), unshare, "--mount", "--mount-proc", gotach, "record", "--pause", "1", "-d", "300ms", "-o", beside))
	check("from a container beside", beside, 1)
}

// thoseIn returns how many goroutines are in a function at some time, given the end of its name.
func thoseIn(t *testing.T, f *reader.Reader, name string) int {
	src, found := samples(f), map[uint64]bool{}
	for s := range testenv.All(t, src.Samples()) {
		if slices.ContainsFunc(callsOf(src, s), func(call string) bool { return strings.HasSuffix(call, name) }) {
			found[s.Goroutine] = true
		}
	}
	return len(found)
}

// A library of Go in a program of C says of itself what is read of it, and so does a plugin, also one that is loaded after the program was opened. Root
// reads the library after it was deleted too. A second one is not read, and named.
func TestPeerLibraries(t *testing.T) {
	gcc := testenv.Command(t, "gcc", "apt-get install gcc")
	for _, mode := range []string{"c-shared", "c-archive", "plugin"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			library, loader := filepath.Join(dir, "library"), filepath.Join(dir, "loader")
			testenv.OK(t, testenv.Build(library, "./testdata/library", nil, "-buildmode="+mode, "-ldflags=-s -w"))
			var x *target
			if mode == "plugin" {
				testenv.OK(t, testenv.Build(loader, "./testdata/loader", nil, "-ldflags=-s -w"))
				x = launch(t, nil, loader, library)
				testenv.Must(x.out.ReadString('\n'))
				p := testenv.Must(Open(t.Context(), x.pid))
				testenv.Must(fmt.Fprintln(x.in))
				compareBy(t, p, x.waits(t))
			} else {
				args, second := []string{"-o", loader, "testdata/c/loader.c", "-ldl"}, ""
				if mode == "c-archive" {
					args = append(args, "-DRUN", library, "-lpthread", "-s")
				} else {
					second = filepath.Join(dir, "second")
					testenv.OK(t, os.WriteFile(second, testenv.Must(os.ReadFile(library)), 0o755))
				}
				testenv.Run(t, exec.Command(gcc, args...))
				x = start(t, loader, library, second)
				if os.Geteuid() == 0 {
					testenv.OK(t, os.Remove(library))
				}
				testenv.Same(t, "the second library", testenv.Must(Open(t.Context(), x.pid)).Second, second)
			}
			compare(t, x)
			r, f := record(t, x, 50, func(stop func()) { stop() })
			testenv.FailIf(t, thoseIn(t, f, ".deep") != 40 || r.Torn > 0, "%d goroutines of 40, %d torn", thoseIn(t, f, ".deep"), r.Torn)
		})
	}
}
