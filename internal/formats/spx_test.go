package formats

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/spx"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

const spxGoldens = "spx/testdata"

// session writes a file as gotach records one, and returns its path.
func session(t *testing.T, edit func(*tachyon.Session), pcs ...*tachyon.LeafPCs) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.tach")
	wholeFile(t, path, 1, edit, pcs...)
	return path
}

func openInput(t *testing.T, path string, o Options) *Input {
	t.Helper()
	in := testenv.Must(Open(path, o))
	t.Cleanup(func() { in.Close() })
	return in
}

func report(t *testing.T, path string) *profile.Report {
	t.Helper()
	return testenv.Must(openInput(t, path, Options{}).Report(profile.ReportOptions{}))
}

// A report of an SPX pair, from any of its names, has the numbers that SPX's own pages show. Package spx compares all.
func TestReportSPX(t *testing.T) {
	const key = spxGoldens + "/spx-full-20261121_041025-vm-18024-1804289383"
	const want = `{"name":"App\\Model\\gen","file":"","line":0,"self_ns":62345,"total_ns":128909,"self_cpu_ns":61840,"total_cpu_ns":127582,` +
		`"called":42,"metrics":{"ct":{"inc":127582,"exc":61840},"it":{"inc":2523,"exc":1075},"wt":{"inc":128909,"exc":62345},"zm":{"inc":4800,"exc":1600}}}`
	for _, path := range []string{key, key + ".json", key + ".txt.gz"} {
		if in := openInput(t, path, Options{}); in.Format != spxReport {
			t.Errorf("%s is taken for %s", path, in.Format.Name)
		}
		rows := report(t, path).Rows
		row := slices.IndexFunc(rows, func(r profile.Row) bool { return r.Name == `App\Model\gen` })
		if b := testenv.Must(json.Marshal(rows[row])); string(b) != want || len(rows) != 14 {
			t.Errorf("%s: %d rows, one is\n%s, want\n%s", path, len(rows), b, want)
		}
	}
}

// Samples that are asked for again after an error end with the same error.
func TestSPXErrorAgain(t *testing.T) {
	const golden, name = spxGoldens + "/spx-full-20261121_041025-vm-18024-1804289383", "late.json"
	dir := t.TempDir()
	meta := regexp.MustCompile(`"exec_ts": \d+`).ReplaceAll(testenv.Must(os.ReadFile(golden+".json")), []byte(`"exec_ts": 1795234234294967296`))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, name), meta, 0o600))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "late.txt.gz"), testenv.Must(os.ReadFile(golden+".txt.gz")), 0o600))
	in := openInput(t, filepath.Join(dir, name), Options{})
	for range 2 {
		_, err := in.Source(stream.Options{})
		testenv.Fails(t, name, err, "is beyond the limit")
	}
}

// A pair has the states and the goroutines of a Go profile, and becomes one again.
func TestSPXOfASession(t *testing.T) {
	in := session(t, nil)
	want := report(t, in)
	dir, back := filepath.Join(t.TempDir(), "reports"), filepath.Join(t.TempDir(), "back.tach")
	testenv.OK(t, convert(in, dir, "spx", Options{}))
	testenv.OK(t, convert(dir, back, "tach", Options{}))
	p := testenv.Must(openInput(t, dir, Options{}).Profile())
	states := map[string]time.Duration{}
	for _, r := range p.Records {
		states[r.State] += r.Wall
	}
	if p.Interval != time.Millisecond || states["running"] == 0 || states["sync.Mutex.Lock"] == 0 || states["syscall"] == 0 {
		t.Errorf("interval %v, %v", p.Interval, states)
	}
	if got := report(t, back); got.Total != want.Total || got.TotalCPU != want.TotalCPU {
		t.Errorf("back again %v, %v on CPU, want %v, %v", got.Total, got.TotalCPU, want.Total, want.TotalCPU)
	}
}

func TestSPXPerGoroutine(t *testing.T) {
	dir := t.TempDir()
	testenv.OK(t, convert(session(t, nil), dir, "spx", Options{Goroutines: true}))
	keys, err := spx.Keys(dir)
	if err != nil || len(keys) < 3 {
		t.Fatalf("%q, %v", keys, err)
	}
	testenv.Fails(t, "the directory", testenv.Err(Open(dir, Options{})), " SPX reports are in the directory")
	openInput(t, filepath.Join(dir, keys[1]), Options{})
}

// In whichever unit it is written, a report is read as what it says.
func TestSPXMicroseconds(t *testing.T) {
	in := session(t, nil)
	dir := t.TempDir()
	testenv.OK(t, convert(in, dir, "spx", Options{Microseconds: true}))
	want, got := report(t, in), report(t, dir)
	if got.Total != want.Total {
		t.Errorf("total is %v, want %v", got.Total, want.Total)
	}
	for _, row := range got.Rows {
		if m := row.Metrics["wt"]; m.Inclusive*1000 != float64(row.Total) {
			t.Errorf("%s: wt is %v µs, total %v", row.Name, m.Inclusive, row.Total)
		}
	}
}

func TestSPXOfAStream(t *testing.T) {
	testenv.Fails(t, "one of two files", testenv.Err(OpenReader(strings.NewReader(`{"key":"spx-full-x","enabled_metrics":["wt"]}`), "stdin", Options{})), "two files")
}

func TestDumpSPX(t *testing.T) {
	in := openInput(t, filepath.Join(spxGoldens, "spx-full-20261121_041033-vm-18085-1804289383.txt.gz"), Options{})
	var b bytes.Buffer
	testenv.OK(t, in.Dump(&b))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 38 {
		t.Errorf("%d events, want 38", len(lines))
	}
	const want = `{"function":"evald","index":2,"enter":false,"metrics":{"wt":177826,"zm":784}}`
	if lines[3] != want {
		t.Errorf("event is %s, want %s", lines[3], want)
	}
	if s, err := in.Verify(); err != nil || s != "38 events of 15 functions, at most 3 calls inside one another, metrics wt zm" {
		t.Errorf("%s, %v", s, err)
	}
	fields := testenv.Must(in.Info())
	got := map[string]any{}
	for _, f := range fields {
		got[f.Key] = f.Value
	}
	if got["functions"] != 15 || got["samples"] != int64(19) || got["duration_ns"] != time.Duration(1095931) {
		t.Errorf("info is %v", got)
	}
}
