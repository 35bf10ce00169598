//go:build linux && (amd64 || arm64)

package harmless

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// A server is a program that is profiled by package auto alone and ended by SIGTERM.
type server struct {
	name   string
	module string // path@version; "" for a program of this package
	cmd    string // its main package
	// empty is a file of the module that only imports packages which are not needed here.
	empty string
	// args returns the arguments and a path that the server answers. dir is for its files.
	args func(t *testing.T, dir, addr string) (args []string, path string)
}

var servers = []server{{
	name: "small",
	cmd:  "./testdata/server",
	args: func(_ *testing.T, _, addr string) ([]string, string) { return []string{addr}, "/" },
}, {
	name:   "caddy",
	module: "github.com/caddyserver/caddy/v2@v2.10.2",
	cmd:    "./cmd/caddy",
	args: func(t *testing.T, dir, addr string) ([]string, string) {
		config := "{\n\tadmin off\n\tauto_https off\n}\nhttp://" + addr + " {\n\trespond hello\n}\n"
		return []string{"run", "--adapter", "caddyfile", "--config", write(t, filepath.Join(dir, "Caddyfile"), config)}, "/"
	},
}, {
	name:   "prometheus",
	module: "github.com/prometheus/prometheus@v0.307.3",
	cmd:    "./cmd/prometheus",
	empty:  "plugins/plugins.go", // clients of clouds
	args: func(t *testing.T, dir, addr string) ([]string, string) {
		config := "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: self\n    static_configs:\n      - targets: ['" + addr + "']\n"
		return []string{"--config.file=" + write(t, filepath.Join(dir, "prometheus.yml"), config),
			"--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr}, "/-/ready"
	},
}}

// TestServers ends servers by SIGTERM. The profile must be finished, or readers must find everything in
// it that is older than 100 ms. The server must end as it does without the profiler.
//
// It takes a small server. GOTACH_SERVERS=20 also takes caddy and prometheus, and ends each 20 times.
func TestServers(t *testing.T) {
	count, list := 2, servers[:1]
	if v := os.Getenv("GOTACH_SERVERS"); v != "" {
		var err error
		if count, err = strconv.Atoi(v); err != nil || count < 1 {
			t.Fatalf("GOTACH_SERVERS=%s is not a positive number", v)
		}
		list = servers
	}
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			bin := s.build(t)
			plain, _, _ := s.end(t, bin, "")
			finished := 0
			var times []time.Duration
			for i := range count {
				out := filepath.Join(t.TempDir(), "x.tach")
				late := testenv.Late()
				state, killed, took := s.end(t, bin, out)
				times = append(times, took)
				if state != plain {
					t.Errorf("run %d ends with %q, without the profiler with %q", i, state, plain)
				}
				if _, err := os.Stat(out + ".journal"); errors.Is(err, fs.ErrNotExist) {
					finished++
				}
				if err := complete(out, killed.Add(-100*time.Millisecond-late())); err != nil {
					t.Errorf("run %d: %v", i, err)
				}
			}
			slices.Sort(times)
			t.Logf("%d of %d files are finished, the others can be read; the servers ended within %v, median %v", finished, count, times[len(times)-1], times[len(times)/2])
		})
	}
}

// build builds the server with package auto.
func (s *server) build(t *testing.T) string {
	t.Helper()
	work := t.TempDir()
	bin := filepath.Join(work, s.name)
	goroot := toolchain(t, work)
	if s.module == "" {
		here, err := filepath.Abs(".")
		if err != nil {
			t.Fatal(err)
		}
		gocmd(t, goroot, here, "build", "-o", bin, s.cmd)
		return bin
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(work, "module")
	if err := os.CopyFS(module, os.DirFS(download(t, goroot, s.module))); err != nil {
		t.Fatal(err)
	}
	gocmd(t, goroot, module, "mod", "edit", "-toolchain=none",
		"-require=github.com/gotach/profiler@v0.0.0", "-replace=github.com/gotach/profiler="+checkout)
	replace := map[string]string{
		filepath.Join(module, s.cmd, "zz_gotach.go"): write(t, filepath.Join(work, "auto.go"), "package main\n\nimport _ \"github.com/gotach/profiler/auto\"\n"),
	}
	if s.empty != "" {
		path := filepath.Join(module, s.empty)
		replace[path] = write(t, filepath.Join(work, "empty.go"), "package "+filepath.Base(filepath.Dir(path))+"\n")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	gocmd(t, goroot, module, "build", "-mod=mod", "-overlay", write(t, filepath.Join(work, "overlay.json"), string(overlay)), "-o", bin, s.cmd)
	return bin
}

// end starts the server, uses it for a second and ends it by SIGTERM. killed is the time of the signal, took the
// time from then to the end.
func (s *server) end(t *testing.T, bin, out string) (state string, killed time.Time, took time.Duration) {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	args, path := s.args(t, dir, addr)
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "PROFILE_OUT="+out, "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	answers, first := 0, time.Time{}
	for begin := time.Now(); answers == 0 || time.Since(first) < time.Second; {
		r, err := http.Get("http://" + addr + path)
		if err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		if err == nil && r.StatusCode == http.StatusOK {
			if answers++; answers == 1 {
				first = time.Now()
			}
		}
		if time.Since(begin) > time.Minute {
			cmd.Process.Kill()
			cmd.Wait()
			t.Fatalf("%d answers: %v\n%s", answers, err, &said)
		}
		time.Sleep(5 * time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
	killed = time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // ProcessState has the result
	took = time.Since(killed)
	if i := strings.Index(said.String(), "gotach: "); i >= 0 {
		t.Errorf("the profiler complains: %.500s", said.String()[i:])
	}
	return cmd.ProcessState.String(), killed, took
}

// complete checks that a profile has everything that happened up to a time.
func complete(path string, until time.Time) error {
	r, err := reader.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil {
		return err
	}
	due := uint64(until.UnixMicro())
	n, last := int64(0), uint64(0)
	first := map[uint64]uint64{} // of each goroutine, the time of its first sample
	for s, err := range r.Samples() {
		if err != nil {
			return err
		}
		n++
		last = max(last, s.Time)
		if _, ok := first[s.Thread]; !ok && s.Interpreter == tachyon.User {
			first[s.Thread] = s.Time
		}
	}
	if last < due {
		return fmt.Errorf("the samples of the last %d µs before %v are missing", due-last, until)
	}
	start := r.Header().Start
	if s := m.Session; s == nil || start+uint64(s.Duration.Microseconds()) < due || s.TicksReached == 0 || s.Cost == 0 || s.Samples > n || s.Source != "native" {
		return fmt.Errorf("%d samples up to %d µs, but the session is %+v", n, last-start, s)
	}
	for _, g := range m.Goroutines {
		if g.CreatedBy != "" || g.ID == 1 {
			delete(first, g.ID)
		}
	}
	for id, t := range first {
		if t < due {
			return fmt.Errorf("goroutine %d has samples %d µs after the start, but no creator", id, t-start)
		}
	}
	return nil
}
