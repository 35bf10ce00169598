package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/testenv"
)

// A pushed is a receiver of what gotach push sends.
type pushed struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	data     []*pb.ProfilesData
	wall     time.Duration
	answer   atomic.Int64 // status code; 0: 200
	light    bool         // keep no data
}

func newPushed(t *testing.T) *pushed {
	p := &pushed{}
	p.Server = httptest.NewServer(http.HandlerFunc(p.take))
	t.Cleanup(p.Close)
	return p
}

func (p *pushed) take(w http.ResponseWriter, r *http.Request) {
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		panic(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	d := &pb.ProfilesData{}
	if err := proto.Unmarshal(b, d); err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0].Samples {
		p.wall += time.Duration(s.Values[0])
	}
	if p.requests = append(p.requests, r); !p.light {
		p.data = append(p.data, d)
	}
	if code := int(p.answer.Load()); code != 0 {
		w.WriteHeader(code)
	}
}

// The command sends a directory once, with the headers and attributes that it is given, and says what it did.
func TestPush(t *testing.T) {
	dir := t.TempDir()
	newBigSession().files(t, dir, 2, 1)
	p := newPushed(t)
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("Authorization: Bearer secret\n\nX-Other:  y \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	push := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := run(append([]string{"push", dir, "--once"}, args...), nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	to := "otlp+" + p.URL
	code, out, errs := push("--to", to, "--header", "X-Scope-OrgID: shop", "--header-file", secret, "--resource", "service.name=cart", "--resource", "k8s.pod.name=x")
	if want := "2 files ("; code != 0 || !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "B) sent to "+to+"; refused: 0, damaged: 0, deleted before: 0\n") || errs != "" {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
	if len(p.requests) < 2 {
		t.Fatalf("%d requests", len(p.requests))
	}
	if h := p.requests[0].Header; h.Get("X-Scope-OrgID") != "shop" || h.Get("Authorization") != "Bearer secret" || h.Get("X-Other") != "y" || p.requests[0].URL.Path != "/v1development/profiles" {
		t.Errorf("%s with %v", p.requests[0].URL, h)
	}
	resource := fmt.Sprint(p.data[0].ResourceProfiles[0].Resource)
	for _, want := range []string{`"cart"`, `"k8s.pod.name"`, `"host.name"`} {
		if !strings.Contains(resource, want) {
			t.Errorf("no %s in %s", want, resource)
		}
	}
	if code, out, _ := push("--to", to); code != 0 || !strings.HasPrefix(out, "0 files") {
		t.Errorf("the second time: code %d, %q", code, out)
	}
	p.answer.Store(400)
	if code, out, errs := push("--to", to+"/other"); code != 1 || !strings.Contains(out, "refused: 2") || !strings.Contains(errs, "gotach: push: 2 files not sent; see "+filepath.Join(dir, "refused")) {
		t.Errorf("refused: code %d, %q, %q", code, out, errs)
	}
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"", 2, "no target; set it with --to"},
		{"--to ftp://x", 2, `"ftp://x" is no target; it must be like otlp+http://HOST:4318`},
		{"--to otlp+http:", 2, `names no host`},
		{"--to otlp+http://localhost:1 --tries 2", 1, "given up after 2 tries: localhost:1: "},
		{"--to otlp+http://localhost:1 --header secret", 2, "a header must be like 'Name: value'"},
		{"--to otlp+http://localhost:1 --resource x", 2, "it must be like service.name=shop"},
		{"--to otlp+http://localhost:1 --keep-refused x", 2, `--keep-refused "x": it must be like 1GB`},
		{"--to otlp+http://localhost:1 --every 0s", 2, "must be above 0"},
		{"--to otlp+http://localhost:1 --ca nosuch", 1, "--ca: open nosuch"},
		{"--to otlp+http://localhost:1 --listen nosuch:x", 1, "--listen: "},
	} {
		if code, _, errs := push(strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.text) {
			t.Errorf("%s: code %d, %q", c.args, code, errs)
		}
	}
}

// A command that runs serves its counters, and ends at SIGTERM.
func TestPushRuns(t *testing.T) {
	dir := t.TempDir()
	newBigSession().files(t, dir, 2, 1)
	p := newPushed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := gotachCommand(t, "push", dir, "--to", "otlp+"+p.URL, "--listen", address, "--every", "50ms")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	metrics := func() string {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	testenv.Await(func() bool { return strings.Contains(metrics(), `gotach_push_files_total{result="sent"} 2`) })
	for _, line := range strings.Split(strings.TrimSpace(metrics()), "\n") {
		if f := strings.Fields(line); !strings.HasPrefix(line, "# HELP gotach_push_") && !strings.HasPrefix(line, "# TYPE gotach_push_") && (len(f) != 2 || !strings.HasPrefix(line, "gotach_push_")) {
			t.Errorf("not a line of Prometheus' format: %q", line)
		}
	}
	if !strings.Contains(metrics(), "gotach_push_requests_total{code=\"200\"} 2\n") || !strings.Contains(metrics(), "\ngotach_push_ready_files 0\n") {
		t.Errorf("counters:\n%s", metrics())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(out.String(), "2 files (") {
		t.Errorf("after SIGTERM: %v, %q", err, out.String())
	}
}

// Beside a program that rotates its files and is killed, all that it recorded is sent.
func TestPushBeside(t *testing.T) {
	dir := t.TempDir()
	p := newPushed(t)
	cmd := gotachCommand(t, "push", dir, "--to", "otlp+"+p.URL, "--every", "100ms")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	requests := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.requests)
	}
	program := testCommand(t, "rotates", filepath.Join(dir, "app.tach"))
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it kills itself
	testenv.Await(func() bool { return requests() == 3 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	want := time.Duration(0)
	for part := 1; part <= 3; part++ {
		in, err := formats.Open(filepath.Join(dir, fmt.Sprintf("app.%d.tach", part)), formats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		sums, err := in.Profile()
		if err != nil {
			t.Fatal(err)
		}
		wall, _ := sums.Total()
		want += wall
	}
	if p.wall != want || want < 2*time.Second {
		t.Errorf("%v of goroutines arrived, the files have %v", p.wall, want)
	}
}

// gotachCommand returns gotach as a process of its own.
func gotachCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := testCommand(t, "gotach", args...)
	cmd.Env = append(os.Environ(), "GOGC=") // as users have it
	return cmd
}

// The memory of gotach push is at most 100 MB, also for a file with 270,000 goroutines that have labels of their own. Garbage
// collections that come late on a busy machine take up to 10 MB more.
func TestMemoryPush(t *testing.T) {
	dir := t.TempDir()
	b := newBigSession()
	b.labels = true
	b.file(t, filepath.Join(dir, "app.1.tach"), 1, 60, 4500)
	b.file(t, filepath.Join(dir, "app.2.tach"), 2, 2, 4500)
	p := newPushed(t)
	p.light = true
	most := memory(t, "push", dir, "--once", "--to", "otlp+"+p.URL)
	t.Logf("%d MB, %d requests", most>>20, len(p.requests))
	if most > 110<<20 || len(p.requests) < 20 {
		t.Errorf("%d bytes of memory, %d requests", most, len(p.requests))
	}
}
