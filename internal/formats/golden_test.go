package formats

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const goldens = "../../testdata/tachyon"

func readGolden(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{goldens}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	b, err = io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names of the goldens that have an expectation.
var goldenNames = []string{"deep", "empty", "emptystack", "interp", "meta", "none", "rle", "tiny", "unicode"}

// Every golden file dumps to what CPython's own reader sees in it.
func TestDumpGoldens(t *testing.T) {
	for _, dir := range []string{"cpython-3.15", "document-v2"} {
		for _, name := range goldenNames {
			for _, ext := range []string{".bin", ".zstd.bin"} {
				t.Run(dir+"/"+name+ext, func(t *testing.T) {
					want := gunzip(t, readGolden(t, "cpython-3.15", name+".bin.expect.jsonl.gz"))
					path := filepath.Join(goldens, dir, name+ext)
					for _, stream := range []bool{false, true} {
						var in *Input
						var err error
						if stream {
							in, err = OpenReader(bytes.NewReader(readGolden(t, dir, name+ext)), "stdin", Options{})
						} else {
							in, err = Open(path, Options{})
						}
						if err != nil {
							t.Fatal(err)
						}
						defer in.Close()
						if want := map[string]string{"cpython-3.15": "cpython315", "document-v2": "tach"}[dir]; in.Format.Name != want {
							t.Errorf("format %s, want %s", in.Format.Name, want)
						}
						var got bytes.Buffer
						if err := in.Dump(&got); err != nil {
							t.Fatal(err)
						}
						sameLines(t, got.String(), string(want))
					}
				})
			}
		}
	}
}

func sameLines(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("line %d of %d, want %d:\n got %.300s\nwant %.300s", i+1, len(g), len(w), at(g, i), at(w, i))
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "(none)"
}

// Converting between the layouts gives the files that CPython and an
// independent program wrote, byte for byte. What the document's layout has no
// place for is made the same first: Python's version, mode and features.
func TestConvertGoldens(t *testing.T) {
	for _, name := range goldenNames {
		if name == "rle" {
			continue // see TestConvertOrder
		}
		for _, ext := range []string{".bin", ".zstd.bin"} {
			t.Run(name+ext, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "out")
				convert := func(from, to string) []byte {
					t.Helper()
					if err := convert(filepath.Join(goldens, from, name+ext), out, to, Options{Uncompressed: true}); err != nil {
						t.Fatal(err)
					}
					b, err := os.ReadFile(out)
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
				v1, v2 := readGolden(t, "cpython-3.15", name+".bin"), readGolden(t, "document-v2", name+".bin")
				if got := convert("cpython-3.15", "tach"); !bytes.Equal(got, v2) {
					t.Errorf("cpython315 to tach differs: %d bytes, want %d", len(got), len(v2))
				}
				if got := convert("cpython-3.15", "cpython315"); !bytes.Equal(got, v1) {
					t.Errorf("cpython315 to itself differs: %d bytes, want %d", len(got), len(v1))
				}
				if got := convert("document-v2", "tach"); !bytes.Equal(got, v2) {
					t.Errorf("tach to itself differs: %d bytes, want %d", len(got), len(v2))
				}
				if name == "meta" || name == "deep" || name == "unicode" {
					return // their frames have columns, or statistics follow
				}
				got := convert("document-v2", "cpython315")
				copy(got[8:12], v1[8:12])
				binary.LittleEndian.PutUint32(got[60:], binary.LittleEndian.Uint32(v1[60:]))
				if !bytes.Equal(got, v1) {
					t.Errorf("tach to cpython315 differs: %d bytes, want %d", len(got), len(v1))
				}
			})
		}
	}
}

// In rle some threads appear in the file in another order than they did in
// time, so the repeats pending at its end come in another order. The samples of
// each thread, and their order, are the same.
func TestConvertOrder(t *testing.T) {
	byThread := func(path string) map[string][]string {
		in := openInput(t, path, Options{})
		var b strings.Builder
		if err := in.Dump(&b); err != nil {
			t.Fatal(err)
		}
		out := map[string][]string{}
		for line := range strings.Lines(b.String()) {
			key, _, _ := strings.Cut(line, `,"timestamp"`)
			out[key] = append(out[key], line)
		}
		return out
	}
	from := filepath.Join(goldens, "cpython-3.15", "rle.bin")
	want := byThread(from)
	for _, to := range []string{"tach", "cpython315"} {
		out := filepath.Join(t.TempDir(), "out")
		if err := convert(from, out, to, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, byThread(out)); diff != "" {
			t.Errorf("%s: %.500s", to, diff)
		}
	}
}

// bomb returns a small gzip file of much nothing.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	nothing := make([]byte, 1<<20)
	for range 24 {
		if _, err := z.Write(nothing); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Converting keeps all of gotach's metadata, of kinds yet unknown, too, and
// gives the new file a checksum of its own.
func TestConvertMetadata(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "a.tach")
	w, err := writer.Create(from, writer.Options{Start: 5_000_000, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFrames(&tachyon.Sample{Thread: 1, Time: 5_001_000, Status: 3}, []tachyon.Frame{{Func: "f", File: "f.go", Line: 1}}); err != nil {
		t.Fatal(err)
	}
	session := tachyon.Session{Program: "prog <&>", Start: time.Unix(5, 0).UTC(), Source: "native", Counts: tachyon.Counts{TicksAsked: 7}}
	goroutines := []tachyon.Goroutine{{ID: 1, CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"k": "v"}}}}}
	for kind, v := range map[string]any{
		tachyon.KindSession: session, tachyon.KindGoroutines: map[string]any{"goroutines": goroutines},
		"future": map[string]any{"n": 1}, "empty": struct{}{}, "list": []int{1, 2},
	} {
		if err := w.AddMetadata(kind, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	objects := func(path string) (kept []string) {
		r, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if present, err := r.VerifyChecksum(); !present || err != nil {
			t.Errorf("%s: checksum %v, %v", path, present, err)
		}
		for _, o := range r.MetadataObjects() {
			if !strings.HasPrefix(o, `{"gotach":"checksum"`) && !strings.HasPrefix(o, `{"gotach":"goroutines"`) && !strings.HasPrefix(o, `{"gotach":"records"`) {
				kept = append(kept, o)
			}
		}
		m, err := r.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&session, m.Session); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(goroutines, m.Goroutines); diff != "" {
			t.Error(diff)
		}
		return kept
	}
	want := objects(from)
	if len(want) != 4 {
		t.Fatalf("%d objects: %q", len(want), want)
	}
	there, back := filepath.Join(dir, "b.bin"), filepath.Join(dir, "c.tach")
	if err := convert(from, there, "", Options{}); err != nil {
		t.Fatal(err)
	}
	if err := convert(there, back, "", Options{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{there, back} {
		if diff := cmp.Diff(want, objects(path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	p, err := openInput(t, there, Options{}).Profile()
	if err != nil {
		t.Fatal(err)
	}
	if p.Records[0].Labels["k"] != "v" || p.Program != "prog <&>" {
		t.Errorf("labels %v, program %q", p.Records[0].Labels, p.Program)
	}
}
