package fleet

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/google/go-cmp/cmp"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/testenv"
)

// Two containers with half a core each write profiles to one volume, and a third one sends them. Their images have nothing but
// one static program, as that of docs/deploy/Containerfile. This is for the step night.
func TestContainers(t *testing.T) {
	if os.Getenv("GOTACH_ENGINES") == "" {
		t.Log("only with GOTACH_ENGINES=all")
		return
	}
	runc := testenv.Command(t, "runc", "apt-get install runc")
	testenv.Limit(t, 0.5) // reports that it is missing where no cgroup can be made
	dir := t.TempDir()
	volume := filepath.Join(dir, "profiles")
	for _, d := range []string{volume, filepath.Join(dir, "image")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{filepath.Dir(dir), dir} { // the containers' user has to get there
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(volume, containerUser, containerUser); err != nil {
		t.Fatal(err)
	}
	for program, path := range map[string]string{"gotach": "../../cmd/gotach", "shop": "./testdata/shop"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-o", filepath.Join(dir, "image", program), path)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var lock sync.Mutex
	sent, files := map[string]int64{}, map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var d pb.ProfilesData
		z, err := gzip.NewReader(r.Body)
		if err == nil {
			var b []byte
			if b, err = io.ReadAll(z); err == nil {
				err = proto.Unmarshal(b, &d)
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
		lock.Lock()
		defer lock.Unlock()
		for _, a := range d.ResourceProfiles[0].Resource.Attributes {
			if a.Key == "host.name" {
				wall := d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0]
				files[fmt.Sprint(wall.TimeUnixNano)] = true
				for _, s := range wall.Samples {
					sent[a.Value.GetStringValue()] += s.Values[0]
				}
			}
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
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, cmd.Stderr)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(fmt.Sprint(cmd.Stderr)), 10, 64)
		if err != nil {
			t.Fatalf("%v: %v", cmd.Args, err)
		}
		stopped = append(stopped, time.Duration(n))
	}
	paths, err := filepath.Glob(filepath.Join(volume, "*.tach"))
	if err != nil || len(paths) < 4 {
		t.Fatalf("the volume has %q, %v", paths, err)
	}
	testenv.Await(func() bool { lock.Lock(); defer lock.Unlock(); return len(files) == len(paths) })
	if out, err := exec.Command(runc, "--root", filepath.Join(dir, "state"), "kill", c.id("push"), "TERM").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := push.Wait(); err != nil {
		t.Errorf("push: %v\n%s", err, push.Stderr)
	}

	want, throttled := map[string]int64{}, map[string]time.Duration{}
	for _, path := range paths {
		in, err := formats.Open(path, formats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		p, err := in.Profile()
		if err != nil {
			t.Fatal(err)
		}
		wall, cpu := p.Total()
		s := p.Metadata.Session
		want[s.Host] += int64(wall)
		// A container that calculates gets half a core, with what was left over at the start.
		if limit := s.Duration*6/10 + 100*time.Millisecond; cpu > limit {
			t.Errorf("%s: %v of CPU time in %v", path, cpu, s.Duration)
		}
		throttled[s.Host] += s.Throttled
		if s.Service != "shop" || s.ServiceVersion != "1.4.2" {
			t.Errorf("%s: %+v", path, s)
		}
	}
	// Between two files is a little time that is in neither, and the last one ends later than the program looked.
	for i, kernel := range stopped {
		host := fmt.Sprint("shop-", i+1)
		if got := throttled[host]; kernel < time.Second || got < kernel*6/10 || got > kernel*14/10+time.Second/2 {
			t.Errorf("%s was kept from running for %v, want %v and at least a second", host, got, kernel)
		}
	}
	lock.Lock()
	defer lock.Unlock()
	if d := cmp.Diff(want, sent); d != "" || len(want) != 2 {
		t.Errorf("wall time by host (-files +received):\n%s", d)
	}
}

// containerUser is the user in the containers.
const containerUser = 10001

// containers are started with runc.
type containers struct {
	t                 *testing.T
	runc, dir, volume string
}

func (c *containers) id(name string) string { return fmt.Sprintf("gotach-%d-%s", os.Getpid(), name) }

// start starts a container that has a number of cores. Its user is not root, and it can write to the volume only.
func (c *containers) start(name string, cores float64, env []string, args ...string) *exec.Cmd {
	c.t.Helper()
	type object = map[string]any
	bundle := filepath.Join(c.dir, name)
	config, err := json.Marshal(object{
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
	if err == nil {
		err = os.Mkdir(bundle, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(c.runc, "--root", filepath.Join(c.dir, "state"), "run", "--bundle", bundle, c.id(name))
	cmd.Stderr = &bytes.Buffer{}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = exec.Command(c.runc, "--root", filepath.Join(c.dir, "state"), "delete", "--force", c.id(name)).Run() // if it still runs
	})
	return cmd
}
