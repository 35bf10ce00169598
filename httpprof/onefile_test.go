package httpprof_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/reader"
)

// Options and variables for the output have no effect on a profile over HTTP. Options and
// variables for sampling do.
func TestHandlerOptions(t *testing.T) {
	load(t)
	dir := t.TempDir()
	temp := filepath.Join(t.TempDir(), "%p") // must not be expanded
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	t.Setenv("PROFILE_OUT", filepath.Join(dir, "env.tach"))
	t.Setenv("PROFILE_ROTATE", "1s")
	t.Setenv("PROFILE_EXPORT", "pprof="+filepath.Join(dir, "env.pb.gz"))
	h := httpprof.Handler(profiler.Output(filepath.Join(dir, "code.tach")), profiler.RotateEvery(time.Second), profiler.Rate(97))
	code, body, _ := get(t, h, "/?seconds=2&format=tach")
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	if made, _ := filepath.Glob(filepath.Join(dir, "*")); len(made) != 0 {
		t.Errorf("made %v", made)
	}
	r, err := reader.New(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil || m.Session == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	if d := m.Session; d.Part != 0 || d.Duration < 2*time.Second || d.Rate != 97 {
		t.Errorf("part %d of %v at %d Hz, want all of 2s at 97 Hz", d.Part, d.Duration, d.Rate)
	}
}
