package writer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// dump prints each sample that CPython's reader returns, one JSON object a line.
const dump = `
import json, sys, _remote_debugging
class Sink:
    def collect(self, stack_frames, timestamps_us=None):
        for i in stack_frames:
            for t in i.threads:
                for us in timestamps_us:
                    print(json.dumps([t.thread_id, i.interpreter_id, us, t.status,
                        [[f[0], f[2], -1 if f[1] is None else f[1][0]] for f in t.frame_info]]))
r = _remote_debugging.BinaryReader(sys.argv[1])
r.replay(Sink())
r.close()
`

// CPython reads the samples of a CPython315 file that is compressed, has several buffers and
// has gotach's metadata.
func TestCPythonReads(t *testing.T) {
	python := testenv.Python315(t)
	path := filepath.Join(t.TempDir(), "x.tach")
	w, err := Create(path, Options{Layout: tachyon.CPython315, Start: 5_000_000, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	want := map[threadID][]told{}
	var frames []tachyon.Frame
	for i := range 100 {
		frames = append(frames, tachyon.Frame{File: "f.go", Func: string(rune('a' + i)), Line: int32(i) + 1})
	}
	for i := range 40_000 {
		s := tachyon.Sample{Thread: uint64(i % 3), Interpreter: uint32(i % 2), Status: tachyon.Status(i % 128), Time: 5_000_000 + uint64(i)*500}
		stack := frames[(i*i/5)%60:][:i*7%40]
		if err := w.WriteFrames(&s, stack); err != nil {
			t.Fatal(err)
		}
		k := threadID{s.Thread, s.Interpreter}
		want[k] = append(want[k], told{s.Time, s.Status, stack})
	}
	if err := w.AddMetadata("session", map[string]string{"program": "test"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := decode(t, b); d.header.Samples != 40_000 {
		t.Fatalf("%d samples", d.header.Samples)
	}
	cmd := exec.Command(python, "-c", dump, path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	got := map[threadID][]told{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var line struct {
			id     threadID
			sample told
		}
		var stack [][3]any
		if err := json.Unmarshal(lines.Bytes(), &[]any{&line.id.Thread, &line.id.Interp, &line.sample.Time, &line.sample.Status, &stack}); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		line.sample.Stack = []tachyon.Frame{}
		for _, f := range stack {
			line.sample.Stack = append(line.sample.Stack, tachyon.Frame{File: f[0].(string), Func: f[1].(string), Line: int32(f[2].(float64))})
		}
		got[line.id] = append(got[line.id], line.sample)
	}
	if len(got) != len(want) {
		t.Fatalf("%d threads, want %d", len(got), len(want))
	}
	for k := range want {
		if len(got[k]) != len(want[k]) {
			t.Fatalf("thread %v: %d samples, want %d", k, len(got[k]), len(want[k]))
		}
		for i := range want[k] {
			if !reflect.DeepEqual(got[k][i], want[k][i]) {
				t.Fatalf("thread %v: sample %d is %v, want %v", k, i, got[k][i], want[k][i])
			}
		}
	}
}

// CPython finds the statistics that the writer writes.
func TestCPythonStats(t *testing.T) {
	python := testenv.Python315(t)
	missed := 2.5
	for _, s := range []*tachyon.Statistics{{Duration: 1.5, Rate: 999, Missed: &missed}, {Duration: 1.5, Rate: 999, ErrorRate: &missed}} {
		ours, theirs := filepath.Join(t.TempDir(), "ours"), filepath.Join(t.TempDir(), "theirs")
		w, err := Create(ours, Options{Layout: tachyon.CPython315, Uncompressed: true, Interval: 1000, CPython: &CPythonInfo{Config: 1, Stats: s}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		arg, err := json.Marshal([]any{s.Duration, s.Rate, s.ErrorRate, s.Missed})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python, "-c", `
import json, sys, _remote_debugging
w = _remote_debugging.BinaryWriter(sys.argv[1], 1000, 0, compression=0)
w.set_stats(*json.loads(sys.argv[2]))
w.finalize()
`, theirs, string(arg)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		a, err := os.ReadFile(ours)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(theirs)
		if err != nil {
			t.Fatal(err)
		}
		copy(a[:64], b[:64]) // versions of Python
		diff(t, a, b)
	}
}

// Package reader finds the metadata.
func TestReaderReadsMetadata(t *testing.T) {
	d := new(disk)
	w, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	session := tachyon.Session{Program: "<test>", Rate: 1000}
	goroutines := []tachyon.Goroutine{{ID: 7, CreatedBy: "main.main"}}
	if err := w.AddMetadata(tachyon.KindSession, session); err != nil {
		t.Fatal(err)
	}
	if err := w.AddMetadata(tachyon.KindGoroutines, goroutines); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFrames(&tachyon.Sample{Thread: 7}, []tachyon.Frame{{Func: "f"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := reader.New(bytes.NewReader(d.b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if m.Session == nil || !reflect.DeepEqual(*m.Session, session) || !reflect.DeepEqual(m.Goroutines, goroutines) || m.Checksum == nil {
		t.Errorf("read %+v", m)
	}
}
