package formats

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const goldens = "../../testdata/tachyon"

func readGolden(t *testing.T, parts ...string) []byte {
	return testenv.Must(os.ReadFile(filepath.Join(append([]string{goldens}, parts...)...)))
}

// names of the goldens that have an expectation.
var goldenNames = []string{"deep", "empty", "emptystack", "interp", "meta", "none", "rle", "tiny", "unicode"}

// Every golden file dumps to what CPython's own reader sees in it, from a path and from a stream.
func TestDumpGoldens(t *testing.T) {
	testenv.Again(t)
	for dir, format := range map[string]*Format{"cpython-3.15": cpython315, "document-v2": tachFormat} {
		for _, name := range goldenNames {
			want := testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(bytes.NewReader(readGolden(t, "cpython-3.15", name+".bin.expect.jsonl.gz"))))))
			for _, ext := range []string{".bin", ".zstd.bin"} {
				file := openInput(t, filepath.Join(goldens, dir, name+ext), Options{})
				stream := testenv.Must(OpenReader(bytes.NewReader(readGolden(t, dir, name+ext)), "stdin", Options{}))
				defer stream.Close()
				for _, in := range []*Input{file, stream} {
					var got bytes.Buffer
					testenv.OK(t, in.Dump(&got))
					if in.Format != format || !bytes.Equal(got.Bytes(), want) {
						t.Errorf("%s/%s is taken for %s and dumps to\n%.1000s, want\n%.1000s", dir, name+ext, in.Format.Name, got.String(), want)
					}
				}
			}
		}
	}
}

// Converting between the layouts gives the files that CPython and an
// independent program wrote, byte for byte. What the document's layout has no
// place for is made the same first: Python's version, mode and features.
func TestConvertGoldens(t *testing.T) {
	testenv.Again(t)
	out := filepath.Join(t.TempDir(), "out")
	for _, name := range goldenNames {
		if name == "rle" {
			continue // see TestConvertOrder
		}
		v1, v2 := readGolden(t, "cpython-3.15", name+".bin"), readGolden(t, "document-v2", name+".bin")
		for _, ext := range []string{".bin", ".zstd.bin"} {
			for _, c := range []struct {
				from, to string
				want     []byte
			}{
				{"cpython-3.15", "tach", v2}, {"cpython-3.15", "cpython315", v1}, {"document-v2", "tach", v2}, {"document-v2", "cpython315", v1},
			} {
				testenv.OK(t, convert(filepath.Join(goldens, c.from, name+ext), out, c.to, Options{Uncompressed: true}))
				got := testenv.Must(os.ReadFile(out))
				if c.from == "document-v2" && c.to == "cpython315" {
					if name == "meta" || name == "deep" || name == "unicode" {
						continue // their frames have columns, or statistics follow
					}
					copy(got[8:12], v1[8:12])
					binary.LittleEndian.PutUint32(got[60:], binary.LittleEndian.Uint32(v1[60:]))
				}
				testenv.Same(t, fmt.Sprint(c.from, "/", name+ext, " to ", c.to), string(got), string(c.want))
			}
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
		testenv.OK(t, in.Dump(&b))
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
		testenv.OK(t, convert(from, out, to, Options{}))
		testenv.NoDiff(t, to, cmp.Diff(want, byThread(out)))
	}
}

// Converting keeps all of gotach's metadata, of kinds yet unknown, too, and
// gives the new file a checksum of its own.
func TestConvertMetadata(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "a.tach")
	w := testenv.Must(writer.Create(from, writer.Options{Start: 5_000_000, Interval: 1000}))
	testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 1, Time: 5_001_000, Status: 3}, []tachyon.Frame{{Func: "f", File: "f.go", Line: 1}}))
	session := tachyon.Session{Program: "prog <&>", Start: time.Unix(5, 0).UTC(), Source: "native", Counts: tachyon.Counts{TicksAsked: 7}}
	goroutines := []tachyon.Goroutine{{ID: 1, CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"k": "v"}}}}}
	for kind, v := range map[string]any{
		tachyon.KindSession: session, tachyon.KindGoroutines: map[string]any{"goroutines": goroutines},
		"future": map[string]any{"n": 1}, "empty": struct{}{}, "list": []int{1, 2},
	} {
		testenv.OK(t, w.AddMetadata(kind, v))
	}
	testenv.OK(t, w.Close())
	objects := func(path string) (kept []string) {
		r := testenv.Must(reader.Open(path))
		defer r.Close()
		if present, err := r.VerifyChecksum(); !present || err != nil {
			t.Errorf("%s: checksum %v, %v", path, present, err)
		}
		for _, o := range r.MetadataObjects() {
			if !strings.HasPrefix(o, `{"gotach":"checksum"`) && !strings.HasPrefix(o, `{"gotach":"goroutines"`) && !strings.HasPrefix(o, `{"gotach":"records"`) {
				kept = append(kept, o)
			}
		}
		m := testenv.Must(r.Metadata())
		testenv.NoDiff(t, "", cmp.Diff(&session, m.Session))
		testenv.NoDiff(t, "", cmp.Diff(goroutines, m.Goroutines))
		return kept
	}
	want := objects(from)
	testenv.Same(t, "objects", len(want), 4)
	there, back := filepath.Join(dir, "b.bin"), filepath.Join(dir, "c.tach")
	testenv.OK(t, convert(from, there, "", Options{}))
	testenv.OK(t, convert(there, back, "", Options{}))
	for _, path := range []string{there, back} {
		testenv.NoDiff(t, path, cmp.Diff(want, objects(path)))
	}
	p := testenv.Must(openInput(t, there, Options{}).Profile())
	testenv.Same(t, "label and program", p.Records[0].Labels["k"]+p.Program, "vprog <&>")
}

// Verify refuses times that sums cannot take.
func TestVerifyFarTimes(t *testing.T) {
	in := openInput(t, "../../testdata/tachyon/document-v2/rle.bin", Options{})
	testenv.Fails(t, "", testenv.Err(in.Verify()), "sample 23279, of goroutine 1: its time of 18446744073709551615 µs is beyond the limit")
}
