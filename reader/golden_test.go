package reader_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

const testdata = "../testdata/tachyon"

// gunzip returns the content of a compressed file.
func gunzip(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// dump writes the samples of a file in the form of the expected outputs: one JSON object a
// line, in file order.
func dump(w io.Writer, r *reader.Reader) error {
	text := func(s string) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.Encode(s)
		// Go escapes U+2028 and U+2029, Python does not.
		return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(b.String(), "\n"))
	}
	frames := make([]string, len(r.Frames()))
	for i, f := range r.Frames() {
		frames[i] = fmt.Sprintf("[%s,%s,%d]", text(f.File), text(f.Func), f.Line)
	}
	b := bufio.NewWriter(w)
	for s, err := range r.Samples() {
		if err != nil {
			return err
		}
		fmt.Fprintf(b, `{"thread_id":%d,"interpreter_id":%d,"timestamp":%d,"status":%d,"frames":[`, s.Thread, s.Interpreter, s.Time, s.Status)
		for i, id := range s.Stack {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(frames[id])
		}
		b.WriteString("]}\n")
	}
	return b.Flush()
}

// same compares two dumps and shows the first line that differs.
func same(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	g, w := bytes.SplitAfter(got, []byte("\n")), bytes.SplitAfter(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			t.Fatalf("line %d:\n got %s\nwant %s", i+1, g[i], w[i])
		}
	}
	t.Fatalf("%d lines, want %d", len(g), len(w))
}

// goldens returns all golden files of a folder.
func goldens(t testing.TB, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(testdata, folder, "*.bin"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no golden files in %s: %v", folder, err)
	}
	return list
}

// nameOf returns the name of the golden file, which is the same in every folder.
func nameOf(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".bin"), ".zstd")
}

// TestGolden compares the samples of every file with those of CPython's own reader, from a
// mapping and from a pipe.
func TestGolden(t *testing.T) {
	for _, folder := range []string{"cpython-3.15", "document-v2"} {
		for _, path := range goldens(t, folder) {
			if nameOf(path) == "big" {
				continue // see TestWorkloads and TestCPython
			}
			t.Run(folder+"/"+filepath.Base(path), func(t *testing.T) {
				want := gunzip(t, filepath.Join(testdata, "cpython-3.15", nameOf(path)+".bin.expect.jsonl.gz"))
				r, err := reader.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				for range 2 { // Samples starts from the beginning each time
					var got bytes.Buffer
					if err := dump(&got, r); err != nil {
						t.Fatal(err)
					}
					same(t, got.Bytes(), want)
				}

				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				r, err = reader.New(io.MultiReader(f))
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if err := dump(&got, r); err != nil {
					t.Fatal(err)
				}
				same(t, got.Bytes(), want)
			})
		}
	}
}

// A workload is the input of a golden file.
type workload struct {
	Start    uint64          `json:"start_time_us"`
	Interval uint64          `json:"sample_interval_us"`
	Mode     *uint32         `json:"mode"`
	Features *uint32         `json:"capture_features"`
	Stats    []float64       `json:"stats"`
	Frames   []workloadFrame `json:"frames"`
	Stacks   [][]int         `json:"stacks"`
	Samples  [][5]uint64     `json:"samples"` // thread, interpreter, time, status, stack
}

type workloadFrame struct {
	File, Func                               string
	Line, EndLine, Column, EndColumn, Opcode int64
}

// UnmarshalJSON reads a frame's list of values.
func (f *workloadFrame) UnmarshalJSON(b []byte) error {
	*f = workloadFrame{Line: -1, EndLine: -1, Column: -1, EndColumn: -1, Opcode: 255} // null: no location
	return json.Unmarshal(b, &[]any{&f.File, &f.Func, &f.Line, &f.EndLine, &f.Column, &f.EndColumn, &f.Opcode})
}

func readWorkload(t testing.TB, name string) *workload {
	t.Helper()
	w := &workload{}
	if err := json.Unmarshal(gunzip(t, filepath.Join(testdata, "cpython-3.15", name+".bin.workload.json.gz")), w); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWorkloads compares every file with the workload that it was written from. It compares
// samples per thread, since repeats are held back, and the parts of the file that are not
// samples.
func TestWorkloads(t *testing.T) {
	for _, folder := range []string{"cpython-3.15", "document-v2"} {
		for _, path := range goldens(t, folder) {
			t.Run(folder+"/"+filepath.Base(path), func(t *testing.T) {
				if nameOf(path) == "big" {
					testenv.Again(t)
				}
				w := readWorkload(t, nameOf(path))
				r, err := reader.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				checkHeader(t, r, w)
				checkSamples(t, r, w)
				if m, err := r.Metadata(); err != nil || m.Session != nil || m.Checksum != nil || len(r.MetadataObjects()) > 0 {
					t.Errorf("Metadata of a file without metadata: %+v, %v", m, err)
				}
				if present, err := r.VerifyChecksum(); present || err != nil {
					t.Errorf("VerifyChecksum of a file without a checksum: %t, %v", present, err)
				}
			})
		}
	}
}

func checkHeader(t *testing.T, r *reader.Reader, w *workload) {
	t.Helper()
	h := r.Header()
	if h.Start != w.Start || h.Interval != w.Interval || h.Samples != uint64(len(w.Samples)) {
		t.Errorf("header %+v, want start %d, interval %d, %d samples", h, w.Start, w.Interval, len(w.Samples))
	}
	if h.Layout != 1 {
		return
	}
	if h.Python != [3]uint8{3, 15, 2} {
		t.Errorf("Python %v", h.Python)
	}
	var config uint32
	if w.Mode != nil {
		config = *w.Mode + 1
	}
	if w.Features != nil {
		config |= 8 | *w.Features<<4
	}
	if h.Config != config {
		t.Errorf("config %#x, want %#x", h.Config, config)
	}
	s := r.Statistics()
	if (s != nil) != (w.Stats != nil) {
		t.Fatalf("statistics %v, want %v", s, w.Stats)
	}
	if s != nil {
		if got := []float64{s.Duration, s.Rate, *s.ErrorRate, *s.Missed}; fmt.Sprint(got) != fmt.Sprint(w.Stats) {
			t.Errorf("statistics %v, want %v", got, w.Stats)
		}
	}
}

func checkSamples(t *testing.T, r *reader.Reader, w *workload) {
	t.Helper()
	type key struct{ thread, interpreter uint64 }
	want := map[key][][5]uint64{}
	for _, s := range w.Samples {
		k := key{s[0], s[1]}
		want[k] = append(want[k], s)
	}
	if n := int(r.Header().Threads); n != len(want) {
		t.Errorf("%d threads, want %d", n, len(want))
	}
	frames := make([]workloadFrame, len(r.Frames()))
	for i, f := range r.Frames() {
		frames[i] = workloadFrame{f.File, f.Func, int64(f.Line), int64(f.Line + f.Span.Lines),
			int64(f.Span.Column - 1), int64(f.Span.Column - 1 + f.Span.Columns), int64(uint8(f.Span.Opcode - 1))}
	}
	n := 0
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		k := key{s.Thread, uint64(s.Interpreter)}
		if len(want[k]) == 0 {
			t.Fatalf("sample %d: one too many of thread %v", n, k)
		}
		ws := want[k][0]
		want[k] = want[k][1:]
		stack := w.Stacks[ws[4]]
		if len(stack) > 256 {
			stack = stack[:256] // CPython's writer keeps 256 frames
		}
		if s.Time != ws[2] || uint64(s.Status) != ws[3] || len(s.Stack) != len(stack) {
			t.Fatalf("sample %d: %v, %d frames, want %v, %d frames", n, s, len(s.Stack), ws, len(stack))
		}
		for i, id := range s.Stack {
			got, want := frames[id], w.Frames[stack[i]]
			if r.Header().Layout != 1 {
				got, want = workloadFrame{File: got.File, Func: got.Func, Line: got.Line}, workloadFrame{File: want.File, Func: want.Func, Line: want.Line}
			}
			if got != want {
				t.Fatalf("sample %d, frame %d: %+v, want %+v", n, i, got, want)
			}
		}
		n++
	}
	if n != len(w.Samples) {
		t.Errorf("%d samples, want %d", n, len(w.Samples))
	}
}

// replay prints every sample of the named files as CPython's own reader returns it.
const replay = `
import json, sys
import _remote_debugging

def dumps(o):
    return json.dumps(o, ensure_ascii=False, separators=(",", ":"))

class Collector:
    def collect(self, stack_frames, timestamps_us=None):
        for interpreter in stack_frames:
            for thread in interpreter.threads:
                frames = dumps([[f[0], f[2], -1 if f[1] is None else f[1][0]] for f in thread.frame_info])
                for t in timestamps_us:
                    print('{"thread_id":%d,"interpreter_id":%d,"timestamp":%d,"status":%d,"frames":%s}' % (
                        thread.thread_id, interpreter.interpreter_id, t, thread.status, frames))

sys.stdout.reconfigure(encoding="utf-8", errors="surrogatepass")
for path in sys.argv[1:]:
    reader = _remote_debugging.BinaryReader(path)
    reader.replay(Collector())
    reader.close()
`

// TestCPython compares the samples with those of the installed CPython, also for the file
// big.
func TestCPython(t *testing.T) {
	python := testenv.Python315(t)
	list := goldens(t, "cpython-3.15")
	if testing.Short() {
		list = list[1:] // without big: CPython prints half a gigabyte for it
	}
	for _, path := range list {
		t.Run(filepath.Base(path), func(t *testing.T) {
			// The output is hashed as a stream: the dump of big is too large to hold twice.
			want := sha256.New()
			cmd := exec.Command(python, "-c", replay, path)
			cmd.Stdout, cmd.Stderr = want, os.Stderr
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			r, err := reader.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got := sha256.New()
			if err := dump(got, r); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
				t.Error("CPython reads different samples")
			}
		})
	}
}
