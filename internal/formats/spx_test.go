package formats

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/spx"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const spxGoldens = "spx/testdata"

// session writes a file of two goroutines, as gotach records one, and returns its path.
func session(t *testing.T, edit func(*tachyon.Session), pcs *tachyon.LeafPCs) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.tach")
	w, err := writer.Create(path, writer.Options{Start: 1_795_234_224_000_000, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	stack := func(words string) (out []tachyon.Frame) {
		for word := range strings.FieldsSeq(words) {
			f := tachyon.Frame{Func: word, File: "/src/main.go", Line: 7}
			if word[0] == '[' {
				f = tachyon.Frame{Func: word}
			}
			out = append(out, f)
		}
		return out
	}
	for i := range uint64(1000) {
		one := tachyon.Sample{Thread: 1, Time: 1_795_234_224_000_000 + 1000*i + i%7, Status: tachyon.OnCPU | tachyon.HasGIL}
		deep := "main.step main.run main.main"
		switch i / 50 % 3 {
		case 1:
			deep = "main.run main.step main.run main.main"
		case 2:
			deep, one.Status = "[sleep] main.read main.run main.main", 0
		}
		two := tachyon.Sample{Thread: 18, Time: one.Time}
		for s, words := range map[*tachyon.Sample]string{&one: deep, &two: "[select] main.worker"} {
			if err := w.WriteFrames(s, stack(words)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := tachyon.Session{Program: "app", Host: "devbox", PID: 4711, Source: "native", Start: time.UnixMicro(1_795_234_224_000_000)}
	if edit != nil {
		edit(&s)
	}
	if err := w.AddMetadata(tachyon.KindSession, s); err != nil {
		t.Fatal(err)
	}
	if pcs != nil {
		if err := w.AddMetadata(tachyon.KindPCs, pcs); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func openInput(t *testing.T, path string, o Options) *Input {
	t.Helper()
	in, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

func report(t *testing.T, path string) *profile.Report {
	t.Helper()
	r, err := openInput(t, path, Options{}).Report(profile.ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A report of an SPX pair has the numbers that SPX's own pages show.
func TestReportSPXGoldens(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(spxGoldens, "*.flat.json"))
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, flat := range files {
		var want struct {
			Flat []struct {
				Name     string
				Called   int64
				Inc, Exc map[string]float64
			}
		}
		b, err := os.ReadFile(flat)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		key := strings.TrimSuffix(flat, ".flat.json")
		for _, path := range []string{key, key + ".json", key + ".txt.gz"} {
			in := openInput(t, path, Options{})
			if in.Format.Name != "spx" {
				t.Errorf("%s is taken for %s", path, in.Format.Name)
			}
			r, err := in.Report(profile.ReportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			rows := map[string]profile.Row{}
			for _, row := range r.Rows {
				rows[row.Name] = row
			}
			if len(rows) != len(want.Flat) {
				t.Errorf("%s: %d rows, want %d", path, len(rows), len(want.Flat))
			}
			for _, w := range want.Flat {
				row := rows[w.Name]
				if row.Called == nil || *row.Called != w.Called || len(row.Metrics) != len(w.Inc) {
					t.Errorf("%s: row %+v, want %+v", path, row, w)
					continue
				}
				for name, m := range row.Metrics {
					if m.Inclusive != w.Inc[name] || m.Exclusive != w.Exc[name] {
						t.Errorf("%s: %s of %s is %v, want %v and %v", path, name, w.Name, m, w.Inc[name], w.Exc[name])
					}
				}
				if float64(row.Total) != w.Inc["wt"] || float64(row.Self) != w.Exc["wt"] {
					t.Errorf("%s: %s took %d and %d itself, want %v and %v", path, w.Name, row.Total, row.Self, w.Inc["wt"], w.Exc["wt"])
				}
			}
		}
	}
}

func TestReportSPXAsJSON(t *testing.T) {
	r := report(t, filepath.Join(spxGoldens, "spx-full-20261121_041024-vm-18014-1804289383.json"))
	b, err := json.Marshal(r.Rows[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"fib","file":"","line":0,"self_ns":304685,"total_ns":304685,"self_cpu_ns":0,"total_cpu_ns":0,` +
		`"called":276,"metrics":{"wt":{"inc":304685,"exc":304685},"zm":{"inc":0,"exc":0}}}`
	if string(b) != want {
		t.Errorf("row is\n%s, want\n%s", b, want)
	}
}

// A Go profile says the same in a pair as in its own file, and back again.
func TestSPXKeepsTimes(t *testing.T) {
	in := session(t, nil, nil)
	want := report(t, in)
	dir := filepath.Join(t.TempDir(), "reports")
	if err := convert(in, dir, "spx", Options{}); err != nil {
		t.Fatal(err)
	}
	got := report(t, dir)
	var roots time.Duration
	rows := map[string]profile.Row{}
	for _, row := range got.Rows {
		rows[row.Name] = row
		if strings.HasPrefix(row.Name, "goroutine ") {
			roots += row.Total
		}
	}
	if roots != want.Total || got.Total != want.Total {
		t.Errorf("roots took %v, all %v, want %v", roots, got.Total, want.Total)
	}
	if len(got.Rows) != len(want.Rows)+2 {
		t.Errorf("%d rows, want %d and two roots", len(got.Rows), len(want.Rows))
	}
	same := func(what string, row, w profile.Row, tolerance time.Duration) {
		t.Helper()
		for _, d := range []time.Duration{row.Self - w.Self, row.Total - w.Total, row.SelfCPU - w.SelfCPU, row.TotalCPU - w.TotalCPU} {
			if d.Abs() > tolerance {
				t.Errorf("%s: %+v, want %+v", what, row, w)
			}
		}
	}
	for _, w := range want.Rows {
		same("spx", rows[w.Name], w, 0)
	}

	p, err := openInput(t, dir, Options{}).Profile()
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]time.Duration{}
	for _, r := range p.Records {
		states[r.State] += r.Wall
	}
	if p.Interval != time.Millisecond || p.Goroutines != 2 || len(states) != 4 || // "": roots and callers
		states["running"] == 0 || states["sleep"] == 0 || states["select"] == 0 || states[""] != 0 {
		t.Errorf("interval %v, %d goroutines, %v", p.Interval, p.Goroutines, states)
	}

	back := filepath.Join(t.TempDir(), "back.tach")
	if err := convert(dir, back, "tach", Options{}); err != nil {
		t.Fatal(err)
	}
	again := report(t, back)
	if len(again.Rows) != len(want.Rows) || again.Total != want.Total || again.Goroutines != 2 {
		t.Errorf("back again %d rows, %v of %d goroutines, want %d, %v of 2", len(again.Rows), again.Total, again.Goroutines, len(want.Rows), want.Total)
	}
	for i, row := range again.Rows {
		if row.Name != want.Rows[i].Name {
			t.Errorf("row %d is %s, want %s", i, row.Name, want.Rows[i].Name)
		}
		// The first microsecond of a goroutine may go elsewhere.
		same("tach", row, want.Rows[i], 2*time.Microsecond)
	}
}

func TestSPXPerGoroutine(t *testing.T) {
	dir := t.TempDir()
	if err := convert(session(t, nil, nil), dir, "spx", Options{Goroutines: true}); err != nil {
		t.Fatal(err)
	}
	keys, err := spx.Keys(dir)
	if err != nil || len(keys) != 2 {
		t.Fatalf("%q, %v", keys, err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "2 SPX reports are in the directory") {
		t.Errorf("error is %v", err)
	}
	openInput(t, filepath.Join(dir, keys[1]), Options{})
}

// In whichever unit it is written, a report is read as what it says.
func TestSPXMicroseconds(t *testing.T) {
	in := session(t, nil, nil)
	dir := t.TempDir()
	if err := convert(in, dir, "spx", Options{Microseconds: true}); err != nil {
		t.Fatal(err)
	}
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

func TestSPXNeedsTimes(t *testing.T) {
	sums := filepath.Join(t.TempDir(), "x.folded")
	if err := os.WriteFile(sums, []byte("main;work 12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	err := convert(sums, out, "spx", Options{})
	if err == nil || !strings.Contains(err.Error(), "needs each sample and its time, and a collapsed file has only sums") {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("there is a directory all the same")
	}
	_, err = OpenReader(strings.NewReader(`{"key":"spx-full-x","enabled_metrics":["wt"]}`), "stdin", Options{})
	if err == nil || !strings.Contains(err.Error(), "two files") {
		t.Errorf("error is %v", err)
	}
}

func TestDumpSPX(t *testing.T) {
	in := openInput(t, filepath.Join(spxGoldens, "spx-full-20261121_041033-vm-18085-1804289383.txt.gz"), Options{})
	var b bytes.Buffer
	if err := in.Dump(&b); err != nil {
		t.Fatal(err)
	}
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
	fields, err := in.Info()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, f := range fields {
		got[f.Key] = f.Value
	}
	if got["functions"] != 15 || got["samples"] != int64(19) || got["duration_ns"] != time.Duration(1095931) {
		t.Errorf("info is %v", got)
	}
}
