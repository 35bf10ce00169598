//go:build peers

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"golang.org/x/sys/unix"
)

// A machine is systemd as process 1 of a container. It can read this machine's /usr. It has its own root, /etc, /tmp, /run, /var, /dev,
// /proc, network and cgroups: when systemd starts, it deletes files in /tmp and /run and changes settings.
type machine struct {
	containers
	lib string // its /var/lib
	log io.Writer
	end chan error
}

// startMachine makes a machine with programs in /usr/local/bin and files in /etc.
func startMachine(t *testing.T, programs string, etc map[string]string) *machine {
	t.Helper()
	const systemd = "/usr/lib/systemd/systemd"
	if _, err := os.Stat(systemd); err != nil {
		testenv.Skip(t, "no systemd: get it with apt-get install systemd")
	}
	testenv.Limit(t, 0.5) // reports that it is missing where no cgroup can be made
	dir := t.TempDir()
	root, lib := filepath.Join(dir, "root"), filepath.Join(dir, "lib")
	m := &machine{containers: containers{t: t, runc: testenv.Command(t, "runc", "apt-get install runc"), dir: dir}, lib: lib, end: make(chan error, 1)}
	for _, d := range []string{"dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var"} {
		m.must(os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	m.must(os.Mkdir(lib, 0o755))
	for _, d := range []string{filepath.Dir(dir), dir, root} { // the services' user has to get there
		m.must(os.Chmod(d, 0o755))
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		m.must(os.Symlink("usr/"+d, filepath.Join(root, d)))
	}
	for name, text := range etc {
		path := filepath.Join(root, "etc", name)
		m.must(os.MkdirAll(filepath.Dir(path), 0o755))
		m.must(os.WriteFile(path, []byte(text), 0o644))
	}
	tmpfs := func(path string) object {
		return object{"destination": path, "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "nodev", "mode=755"}}
	}
	// It may not set the clock, load kernel modules or make device files.
	may := []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_ADMIN",
		"CAP_NET_BIND_SERVICE", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT",
		"CAP_SYS_NICE", "CAP_SYS_PTRACE",
	}
	t.Cleanup(func() {
		<-m.end
		if t.Failed() {
			t.Logf("systemd: %s", m.log)
		}
	})
	cmd := m.bundle("machine", object{
		"ociVersion": "1.0.2",
		"hostname":   "web-1",
		"root":       object{"path": root},
		"process": object{
			"args": []string{systemd, "--log-target=console", "--show-status=0"}, "env": []string{"container=runc", "PATH=/usr/sbin:/usr/bin"}, "cwd": "/",
			"user": object{"uid": 0, "gid": 0}, "capabilities": object{"bounding": may, "effective": may, "permitted": may},
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": []string{"newinstance", "ptmxmode=0666"}},
			{"destination": "/dev/shm", "type": "tmpfs", "source": "shm"},
			{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"ro", "nosuid", "noexec", "nodev"}},
			{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": []string{"rw", "nosuid", "noexec", "nodev"}},
			tmpfs("/run"), tmpfs("/tmp"), tmpfs("/var"),
			{"destination": "/var/lib", "type": "bind", "source": lib, "options": []string{"bind", "rw"}},
			{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"bind", "ro"}},
			{"destination": "/usr/local/bin", "type": "bind", "source": programs, "options": []string{"bind", "ro"}},
		},
		"linux": object{
			"cgroupsPath":       "/" + m.id("machine"),
			"namespaces":        []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}, {"type": "cgroup"}},
			"rootfsPropagation": "private",
			"readonlyPaths":     []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"},
			"maskedPaths":       []string{"/proc/kcore", "/proc/keys"},
		},
	})
	m.log = cmd.Stderr
	go func() { m.end <- cmd.Wait() }()
	m.await("systemd", func() bool {
		out, _ := m.try("systemctl", "is-system-running")
		return out == "running" || out == "degraded"
	})
	return m
}

func (m *machine) must(err error) { m.t.Helper(); testenv.OK(m.t, err) }

// await waits until a condition is true, at most two minutes.
func (m *machine) await(what string, is func() bool) {
	m.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-m.end:
			m.end <- err
			m.t.Fatalf("the container ended: %v", err)
		default:
		}
		if time.Now().After(end) {
			out, _ := m.try("journalctl", "--no-pager", "-n", "50")
			m.t.Fatalf("waited for %s too long\n%s", what, out)
		}
	}
}

// try runs a program in the machine and returns what it prints.
func (m *machine) try(args ...string) (string, error) {
	out, err := m.command(append([]string{"exec", m.id("machine")}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run runs a program in the machine that has to succeed.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	testenv.StopIf(m.t, err != nil, "%q: %v\n%s", args, err, out)
	return out
}

// serve makes a server that is listening at an address of the machine.
func (m *machine) serve(server *httptest.Server, address string) {
	m.t.Helper()
	var state struct{ PID int }
	m.must(json.Unmarshal(testenv.Must(m.command("state", m.id("machine")).Output()), &state))
	type listening struct {
		net.Listener
		err error
	}
	done := make(chan listening)
	go func() {
		runtime.LockOSThread() // and does not unlock it: the thread ends with the goroutine
		l, err := listen(state.PID, address)
		done <- listening{l, err}
	}()
	l := <-done
	m.must(l.err)
	server.Listener.Close()
	server.Listener = l.Listener
	server.Start()
	m.t.Cleanup(server.Close)
}

// listen listens in the network of a process. The calling thread stays there.
func listen(pid int, address string) (net.Listener, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, errors.Join(errors.New("setns"), err)
	}
	return net.Listen("tcp", address)
}

// The units of docs/deploy, started by systemd: files rotate and arrive, and restarts, stops and crashes of both services lose
// nothing. Only the time of a file is shorter than in the unit.
func TestPeerSystemd(t *testing.T) {
	testenv.Night(t, "a machine with systemd takes long")
	programs := t.TempDir()
	build(t, programs, map[string]string{"gotach": "../..", "shop": "./testdata/service"})
	etc := map[string]string{
		"passwd":     "root:x:0:0::/root:/bin/sh\nshop:x:10001:10001::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n",
		"group":      "root:x:0:\nshop:x:10001:\nnogroup:x:65534:\n",
		"hosts":      "127.0.0.1 localhost collector\n",
		"machine-id": strings.Repeat("0123456789abcdef", 2) + "\n",
		"systemd/system/shop.service.d/test.conf": "[Service]\nEnvironment=PROFILE_ROTATE=1s\n",
	}
	for name, to := range map[string]string{
		"shop.service": "systemd/system/", "gotach-push.service": "systemd/system/", "gotach-profiles.conf": "tmpfiles.d/",
	} {
		etc[to+name] = string(testenv.Must(os.ReadFile("../../../../docs/deploy/" + name)))
	}
	m := startMachine(t, programs, etc)
	r := &unitReceiver{walls: map[string]*pb.Profile{}}
	m.serve(httptest.NewUnstartedServer(r), "127.0.0.1:4318")
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "enable", "--now", "shop", "gotach-push")
	m.await("files", func() bool { return r.files() >= 3 })

	m.run("systemctl", "restart", "shop")
	before := m.show("gotach-push", "MainPID")
	m.run("systemctl", "kill", "--signal=KILL", "gotach-push")
	m.await("push to be started again", func() bool {
		return m.show("gotach-push", "ActiveState") == "active" && m.show("gotach-push", "MainPID") != before
	})
	testenv.Same(t, "restarts of push", m.show("gotach-push", "NRestarts"), "1")
	had := r.files()
	m.await("files from the new push", func() bool { return r.files() >= had+3 })
	m.run("systemctl", "kill", "--signal=KILL", "shop")
	m.await("the program to be started again", func() bool { return m.show("shop", "NRestarts") == "1" && m.show("shop", "ActiveState") == "active" })
	m.run("systemctl", "restart", "gotach-push")
	had = r.files()
	m.await("files of the third life", func() bool { return r.files() >= had+3 })
	m.run("systemctl", "stop", "shop")
	m.run("systemd-tmpfiles", "--create", "--clean", "/etc/tmpfiles.d/gotach-profiles.conf") // the files are too young for it

	dir := filepath.Join(m.lib, "shop", "profiles")
	want, lives := onDisk(t, dir)
	testenv.Same(t, "processes", lives, 3)
	m.await("the last file", func() bool { return r.files() >= len(want) })
	m.run("systemctl", "stop", "gotach-push")
	for _, unit := range []string{"shop", "gotach-push"} {
		if result, state := m.show(unit, "Result"), m.show(unit, "ActiveState"); result != "success" || state != "inactive" {
			t.Errorf("%s ended with %s, %s\n%s", unit, result, state, m.run("journalctl", "--no-pager", "-u", unit))
		}
	}
	testenv.NoDiff(t, "wall time by start of a file", cmp.Diff(want, r.sums()))
	testenv.SameList(t, "refused", testenv.Must(filepath.Glob(filepath.Join(dir, "refused", "*"))), nil)
	t.Logf("%d files; %d came twice", len(want), r.twice)
}

// show returns a property of a unit.
func (m *machine) show(unit, property string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "--value", "--property="+property, unit)
}

// onDisk returns the wall time of the files in a directory by their start, and the number of processes that wrote them.
func onDisk(t *testing.T, dir string) (walls map[string]int64, processes int) {
	t.Helper()
	walls = map[string]int64{}
	pids := map[int]bool{}
	for _, p := range profiles(t, dir, 9) {
		s := p.Metadata.Session
		wall, _ := p.Total()
		walls[fmt.Sprint(s.Start.UnixNano())] += int64(wall)
		pids[s.PID] = true
		testenv.FailIf(t, s.Service != "shop" || s.Host != "web-1", "%+v", s)
	}
	return walls, len(pids)
}

// A unitReceiver keeps the wall time profiles that it gets, by id.
type unitReceiver struct {
	lock  sync.Mutex
	walls map[string]*pb.Profile
	twice int
}

func (r *unitReceiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/x-protobuf")
	p, _ := received(request)
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.walls[string(p.ProfileId)] != nil {
		r.twice++
	}
	r.walls[string(p.ProfileId)] = p
}

// sums returns the wall time by the start of a profile.
func (r *unitReceiver) sums() map[string]int64 {
	r.lock.Lock()
	defer r.lock.Unlock()
	out := map[string]int64{}
	for _, p := range r.walls {
		for _, s := range p.Samples {
			out[fmt.Sprint(p.TimeUnixNano)] += s.Values[0]
		}
	}
	return out
}

func (r *unitReceiver) files() int { return len(r.sums()) }
