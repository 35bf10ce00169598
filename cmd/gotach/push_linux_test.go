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

// A pushed is a receiver of what gotach push sends, one request after the other.
type pushed struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	sent     int64         // bytes
	first    *http.Request // with its body
	body     string
	answer   int
}

func newPushed(t *testing.T) *pushed {
	p := &pushed{answer: http.StatusOK}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(r.Body))))
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.requests++; p.requests == 1 {
			p.first, p.body = r, string(body)
		}
		p.sent += r.ContentLength
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
	push := func(args ...string) (out, errs string, code int) {
		return ran(append([]string{"push", dir, "--once"}, args...)...)
	}
	to := "otlp+" + p.URL
	out, errs, code := push("--to", to, "--header", "X-Scope-OrgID: shop", "--header-file", secret, "--resource", "service.name=cart", "--resource", "k8s.pod.name=x")
	testenv.Same(t, errs, code, 0)
	testenv.Same(t, "standard error", errs, "")
	testenv.Has(t, "the command says", out, "2 files (", "B) sent to "+to+"; refused: 0, damaged: 0, deleted before: 0\n")
	testenv.Same(t, "requests", p.requests, 2)
	h := p.first.Header
	testenv.SameList(t, "headers", []string{h.Get("X-Scope-OrgID"), h.Get("Authorization"), h.Get("X-Other")}, []string{"shop", "Bearer secret", "y"})
	testenv.Same(t, "the path", p.first.URL.Path, "/v1development/profiles")
	testenv.Has(t, "attributes", p.body, "service.name\x12\x06\n\x04cart", "k8s.pod.name\x12\x03\n\x01x", "host.name\x12\x06\n\x04host")
	out, errs, code = push("--to", to)
	testenv.FailIf(t, code != 0 || !strings.HasPrefix(out, "0 files"), "the second time: code %d, %q, %q", code, out, errs)
	p.answer = http.StatusBadRequest
	out, errs, code = push("--to", to+"/other")
	testenv.Same(t, "code, if they are refused", code, 1)
	testenv.Has(t, "refused", out+errs, "refused: 2", "gotach: push: 2 files not sent; see "+filepath.Join(dir, "refused"))
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
		f := strings.Fields(line)
		testenv.FailIf(t, !strings.HasPrefix(line, "# HELP gotach_push_") && !strings.HasPrefix(line, "# TYPE gotach_push_") && (len(f) != 2 || !strings.HasPrefix(line, "gotach_push_")), "not a line of Prometheus' format: %q", line)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	want := fmt.Sprintf("gotach_push_requests_total{code=\"200\"} %d\n", p.requests)
	testenv.FailIf(t, p.requests < 3 || !strings.Contains(metrics, want), "the counters lack %s:\n%s", want, metrics)
	must(cmd.Process.Signal(syscall.SIGTERM))
	must(cmd.Wait())
	testenv.Has(t, "after SIGTERM", out.String(), "3 files (")
}
