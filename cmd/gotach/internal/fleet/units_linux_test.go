//go:build peers

package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv/cmp"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/gotach/profiler/internal/testenv"
)

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
	if list, _ := os.ReadDir(filepath.Join(dir, "refused")); len(list) > 0 {
		t.Errorf("push refused %v", list)
	}
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
		if s.Service != "shop" || s.Host != "web-1" {
			t.Errorf("%+v", s)
		}
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
	p, _, err := received(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
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
