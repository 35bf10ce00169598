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
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// A pushed is a receiver of what gotach push sends.
type pushed struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	answer   int
}

func newPushed(t *testing.T) *pushed {
	p := &pushed{answer: http.StatusOK}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(r.Body))))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests, p.bodies = append(p.requests, r), append(p.bodies, string(body))
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(p.answer)
	}))
	t.Cleanup(p.Close)
	return p
}

// The command sends a directory once, with the headers and attributes that it is given, and says what it did.
func TestPush(t *testing.T) {
	testenv.Long(t)
	dir := t.TempDir()
	for n := range 2 {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("app.%d.tach", n)), n, 100)
	}
	p := newPushed(t)
	secret := filepath.Join(t.TempDir(), "token")
	must(os.WriteFile(secret, []byte("Authorization: Bearer secret\n\nX-Other:  y \n"), 0o600))
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
	if len(p.requests) != 2 {
		t.Fatalf("%d requests", len(p.requests))
	}
	if h := p.requests[0].Header; h.Get("X-Scope-OrgID") != "shop" || h.Get("Authorization") != "Bearer secret" || h.Get("X-Other") != "y" || p.requests[0].URL.Path != "/v1development/profiles" {
		t.Errorf("%s with %v", p.requests[0].URL, h)
	}
	for _, want := range []string{"service.name\x12\x06\n\x04cart", "k8s.pod.name\x12\x03\n\x01x", "host.name\x12\x06\n\x04host"} {
		if !strings.Contains(p.bodies[0], want) {
			t.Errorf("no attribute %q in %q", want, p.bodies[0])
		}
	}
	if code, out, _ := push("--to", to); code != 0 || !strings.HasPrefix(out, "0 files") {
		t.Errorf("the second time: code %d, %q", code, out)
	}
	p.answer = http.StatusBadRequest
	if code, out, errs := push("--to", to+"/other"); code != 1 || !strings.Contains(out, "refused: 2") || !strings.Contains(errs, "gotach: push: 2 files not sent; see "+filepath.Join(dir, "refused")) {
		t.Errorf("refused: code %d, %q, %q", code, out, errs)
	}
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"", 2, "no target; set it with --to"},
		{"--to ftp://x", 2, `"ftp://…" is no target; it must be like otlp+http://HOST:4318`},
		{"--to otlp+http:", 2, `names no host`},
		{"--to otlp+http://user:S3CR%ET@h:1", 2, `"otlp+http://…" is no valid URL`},
		{"---to=otlp+http://user:S3CRET@h:1", 2, "bad flag syntax\n"},
		{"-HAuthorization:S3CRET", 2, "unknown shorthand flag: 'H'\n"},
		{"--to otlp+http://localhost:1 --header Author\"ization:S3CRET", 2, "a header must be like 'Name: value'"},
		{"--to otlp+http://user:S3CRET@localhost:1?t=S3CRET --tries 1", 1, "given up after 1 tries: localhost:1: "},
		{"--to otlp+http://localhost:1 --give-up 0s", 2, "must be above 0"},
		{"--to otlp+http://localhost:1 --resource x", 2, "it must be like service.name=shop"},
		{"--to otlp+http://localhost:1 --keep-refused x", 2, `--keep-refused "x": it must be like 1GB`},
		{"--to otlp+http://localhost:1 --every 0s", 2, "must be above 0"},
		{"--to otlp+http://localhost:1 --ca nosuch", 1, "--ca: open nosuch"},
		{"--to otlp+http://localhost:1 --listen nosuch:x", 1, "--listen: "},
	} {
		if code, out, errs := push(strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.text) || strings.Contains(out+errs, "S3C") {
			t.Errorf("%s: code %d, %q", c.args, code, errs)
		}
	}
}

// Beside a program that rotates its files and is killed, a command that runs sends all that it recorded, serves its
// counters, and ends at SIGTERM.
func TestPushBeside(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir := t.TempDir()
	p := newPushed(t)
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
	address := l.Addr().String()
	must(l.Close())
	cmd := testCommand(t, "gotach", "push", dir, "--to", "otlp+"+p.URL, "--listen", address, "--every", "50ms")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	must(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	program := testCommand(t, "rotates", filepath.Join(dir, "app.tach"))
	must(program.Start())
	_ = program.Wait() // it kills itself
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{"app.3.tach", "app.3.tach.journal"} { // as if that were long ago
		must(os.Chtimes(filepath.Join(dir, name), long, long))
	}
	var metrics string
	testenv.Await(func() bool {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		metrics = string(b)
		return strings.Contains(metrics, `gotach_push_files_total{result="sent"} 3`) && strings.Contains(metrics, "\ngotach_push_ready_files 0\n")
	})
	for _, line := range strings.Split(strings.TrimSpace(metrics), "\n") {
		if f := strings.Fields(line); !strings.HasPrefix(line, "# HELP gotach_push_") && !strings.HasPrefix(line, "# TYPE gotach_push_") && (len(f) != 2 || !strings.HasPrefix(line, "gotach_push_")) {
			t.Errorf("not a line of Prometheus' format: %q", line)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if want := fmt.Sprintf("gotach_push_requests_total{code=\"200\"} %d\n", len(p.requests)); len(p.requests) < 3 || !strings.Contains(metrics, want) {
		t.Errorf("the counters lack %s:\n%s", want, metrics)
	}
	must(cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(out.String(), "3 files (") {
		t.Errorf("after SIGTERM: %v, %q", err, out.String())
	}
}
