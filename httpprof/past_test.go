package httpprof_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/reader"
)

// last=1s gives the past second of the session that runs, from one file and from several.
func TestPast(t *testing.T) {
	for name, opts := range map[string][]profiler.Option{"one file": nil, "rotation": {profiler.RotateEvery(time.Second), profiler.KeepFiles(3)}} {
		t.Run(name, func(t *testing.T) {
			pprof.Do(t.Context(), pprof.Labels("kind", "early"), func(context.Context) { load(t) })
			s, err := profiler.Open(append(opts, profiler.Output(filepath.Join(t.TempDir(), "x.tach")))...)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			code, body, _ := get(t, httpprof.Handler(), "/?last=1h")
			if code != http.StatusServiceUnavailable || !bytes.Contains(body, []byte("the session has run for ")) {
				t.Errorf("status %d: %s", code, body)
			}
			time.Sleep(1500 * time.Millisecond)
			code, body, _ = get(t, httpprof.Handler(), "/?last=1s&format=tach")
			if code != http.StatusOK {
				t.Fatalf("status %d: %s", code, body)
			}
			r, err := reader.New(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			m, err := r.Metadata()
			if err != nil || m.Session == nil {
				t.Fatal("no session in the metadata: ", err)
			}
			// The last samples may be missing, on a busy machine more of them.
			if d := m.Session.Duration; d < 500*time.Millisecond || d > 2*time.Second || m.Session.Samples != int64(r.Header().Samples) || m.Session.Error != "" {
				t.Errorf("the session is %+v, the header %+v", m.Session, r.Header())
			}
			for name, d := range checkLoad(t, r, m, s.Stats().Source == "native", true) {
				if d < m.Session.Duration*8/10 || d > m.Session.Duration+5*time.Millisecond {
					t.Errorf("%s took %v of %v", name, d, m.Session.Duration)
				}
			}
		})
	}
}

func TestPastErrors(t *testing.T) {
	for query, want := range map[string]string{
		"last=x":             "not a duration such as 30s",
		"last=-1s":           "not a duration such as 30s",
		"last=1s&seconds=1":  "a request has one of them",
		"last=1s&format=bmp": "bad format",
		"last=1s":            "no session is running",
	} {
		code, body, _ := get(t, httpprof.Handler(), "/?"+query)
		status := http.StatusBadRequest
		if query == "last=1s" {
			status = http.StatusServiceUnavailable
		}
		if code != status || !strings.Contains(string(body), want) {
			t.Errorf("%s: status %d: %s", query, code, body)
		}
	}
}

// go tool pprof can read both from a running session.
func TestPprofOfRunning(t *testing.T) {
	load(t)
	s, err := profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach")))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	srv := httptest.NewServer(httpprof.Handler())
	defer srv.Close()
	time.Sleep(1100 * time.Millisecond)
	for _, query := range []string{"?seconds=1", "?last=1s"} {
		cmd := exec.Command("go", "tool", "pprof", "-top", "-sample_index=wall", srv.URL+"/"+query)
		cmd.Env = append(cmd.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("handlerTestWait")) || !bytes.Contains(out, []byte("handlerTestNap")) {
			t.Errorf("%s: %v\n%s", query, err, out)
		}
	}
}
