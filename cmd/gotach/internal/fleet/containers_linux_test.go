//go:build peers

package fleet

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"
)

// Two containers with half a core each write profiles to one volume, and a third one sends them. Their images have nothing but
// one static program, as that of docs/deploy/Containerfile.
func TestPeerContainers(t *testing.T) {
	testenv.Night(t, "containers take long")
	runc := testenv.Command(t, "runc", "apt-get install runc")
	testenv.Limit(t, 0.5) // reports that it is missing where no cgroup can be made
	dir := t.TempDir()
	volume := filepath.Join(dir, "profiles")
	for _, d := range []string{volume, filepath.Join(dir, "image")} {
		testenv.OK(t, os.Mkdir(d, 0o755))
	}
	for _, d := range []string{filepath.Dir(dir), dir} { // the containers' user has to get there
		testenv.OK(t, os.Chmod(d, 0o755))
	}
	testenv.OK(t, os.Chown(volume, containerUser, containerUser))
	build(t, filepath.Join(dir, "image"), map[string]string{"gotach": "../..", "shop": "./testdata/shop"})
	var lock sync.Mutex
	sent, files := map[string]int64{}, map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		wall, host := received(r)
		lock.Lock()
		defer lock.Unlock()
		files[fmt.Sprint(wall.TimeUnixNano)] = true
		for _, s := range wall.Samples {
			sent[host] += s.Values[0]
		}
	}))
	defer receiver.Close()

	c := containers{t: t, runc: runc, dir: dir, volume: volume}
	push := c.start("push", 0.2, nil, "/gotach", "push", "/profiles", "--to", "otlp+"+receiver.URL, "--every", "100ms")
	env := []string{"PROFILE_OUT=/profiles/%h-%t.tach", "PROFILE_ROTATE=1s", "PROFILE_KEEP=100", "PROFILE_SERVICE=shop@1.4.2"}
	var shops []*exec.Cmd
	var stopped []time.Duration // as the programs say
	for i := range 2 {
		shops = append(shops, c.start(fmt.Sprint("shop-", i+1), 0.5, env, "/shop"))
	}
	for _, cmd := range shops {
		testenv.Same(t, fmt.Sprint(cmd.Args, cmd.Stderr, ": error"), cmd.Wait(), nil)
		stopped = append(stopped, time.Duration(testenv.Must(strconv.ParseInt(strings.TrimSpace(fmt.Sprint(cmd.Stderr)), 10, 64))))
	}
	written := profiles(t, volume, 4)
	testenv.Await(func() bool { lock.Lock(); defer lock.Unlock(); return len(files) == len(written) })
	testenv.Run(t, c.command("kill", c.id("push"), "TERM"))
	testenv.Same(t, fmt.Sprint("push: ", push.Stderr, ": error"), push.Wait(), nil)

	want, throttled := map[string]int64{}, map[string]time.Duration{}
	for _, p := range written {
		wall, cpu := p.Total()
		s := p.Metadata.Session
		want[s.Host] += int64(wall)
		// A container that calculates gets half a core, with what was left over at the start.
		limit := s.Duration*6/10 + 100*time.Millisecond
		testenv.FailIf(t, cpu > limit, "%s: %v of CPU time in %v", s.Host, cpu, s.Duration)
		throttled[s.Host] += s.Throttled
		testenv.FailIf(t, s.Service != "shop" || s.ServiceVersion != "1.4.2", "%+v", s)
	}
	// Between two files is a little time that is in neither, and the last one ends later than the program looked.
	for i, kernel := range stopped {
		host := fmt.Sprint("shop-", i+1)
		got := throttled[host]
		testenv.FailIf(t, kernel < time.Second || got < kernel*6/10 || got > kernel*14/10+time.Second/2, "%s was kept from running for %v, want %v and at least a second", host, got, kernel)
	}
	lock.Lock()
	defer lock.Unlock()
	testenv.NoDiff(t, "wall time by host", cmp.Diff(want, sent))
	testenv.Same(t, "hosts", len(want), 2)
}

// containerUser is the user in the containers.
const containerUser = 10001

// containers are started with runc.
type containers struct {
	t                 *testing.T
	runc, dir, volume string
}

func (c *containers) id(name string) string { return fmt.Sprintf("gotach-%d-%s", os.Getpid(), name) }

type object = map[string]any

// start starts a container that has a number of cores. Its user is not root, and it can write to the volume only.
func (c *containers) start(name string, cores float64, env []string, args ...string) *exec.Cmd {
	return c.bundle(name, object{
		"ociVersion": "1.0.2",
		"hostname":   name,
		"root":       object{"path": filepath.Join(c.dir, "image"), "readonly": true},
		"process": object{
			"args": args, "env": env, "cwd": "/", "noNewPrivileges": true, "user": object{"uid": containerUser, "gid": containerUser},
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": []string{"ro", "nosuid", "noexec", "nodev"}},
			{"destination": "/profiles", "type": "bind", "source": c.volume, "options": []string{"bind", "rw"}},
		},
		"linux": object{
			"cgroupsPath": "/" + c.id(name),
			"resources":   object{"cpu": object{"quota": int(cores * 100_000), "period": 100_000}},
			"namespaces":  []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "cgroup"}},
		},
	})
}

// bundle starts a container with a configuration.
func (c *containers) bundle(name string, config object) *exec.Cmd {
	c.t.Helper()
	bundle := filepath.Join(c.dir, name)
	testenv.OK(c.t, os.Mkdir(bundle, 0o700))
	testenv.OK(c.t, os.WriteFile(filepath.Join(bundle, "config.json"), testenv.Must(json.Marshal(config)), 0o600))
	cmd := c.command("run", "--bundle", bundle, c.id(name))
	cmd.Stderr = &bytes.Buffer{}
	cmd.Stdout = cmd.Stderr
	testenv.OK(c.t, cmd.Start())
	c.t.Cleanup(func() { _ = c.command("delete", "--force", c.id(name)).Run() }) // if it still runs
	return cmd
}

// command is one of runc.
func (c *containers) command(args ...string) *exec.Cmd {
	return exec.Command(c.runc, append([]string{"--root", filepath.Join(c.dir, "state")}, args...)...)
}

// build builds static programs into a directory that every user can read.
func build(t *testing.T, dir string, packages map[string]string) {
	t.Helper()
	for program, path := range packages {
		cmd := exec.Command("go", "build", "-ldflags=-s", "-o", filepath.Join(dir, program), path)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		testenv.Run(t, cmd)
	}
	testenv.OK(t, os.Chmod(dir, 0o755))
}

// listens waits until somebody listens at an address, at most a minute.
func listens(t *testing.T, address string) {
	t.Helper()
	var err error
	testenv.Await(func() bool {
		var c net.Conn
		if c, err = net.Dial("tcp", address); err == nil {
			c.Close()
		}
		return err == nil
	})
	testenv.OK(t, err)
}

// received reads the first profile, that of wall time, of a message of push. host is its attribute host.name. A server that panics takes nothing.
func received(r *http.Request) (wall *pb.Profile, host string) {
	var d pb.ProfilesData
	b := testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(r.Body))))
	testenv.Must(0, proto.Unmarshal(b, &d))
	for _, a := range d.ResourceProfiles[0].Resource.Attributes {
		if a.Key == "host.name" {
			host = a.Value.GetStringValue()
		}
	}
	return d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0], host
}

// profiles returns what the files of a directory have added up.
func profiles(t *testing.T, dir string, atLeast int) (list []*profile.Profile) {
	t.Helper()
	paths := testenv.Files(t, filepath.Join(dir, "*.tach"), atLeast)
	for _, path := range paths {
		in := testenv.Closes(t, testenv.Must(formats.Open(path, formats.Options{})))
		list = append(list, testenv.Must(in.Profile()))
	}
	return list
}
