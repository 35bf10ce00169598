package formats

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
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

// Converting between the layouts gives the files that CPython and an
// independent program wrote, byte for byte. What the document's layout has no
// place for is made the same first: Python's version, mode and features.
func TestConvertGoldens(t *testing.T) {
	testenv.Again(t)
	out := filepath.Join(t.TempDir(), "out")
	for _, name := range goldenNames {
		if name == "rle" {
			continue // its threads come in another order than in time, and so do the repeats at its end
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
		r := testenv.Closes(t, testenv.Must(reader.Open(path)))
		testenv.Same(t, path+": a checksum", testenv.Must(r.VerifyChecksum()), true)
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

// session writes a file as gotach records one, and returns its path.
func session(t *testing.T, edit func(*tachyon.Session), pcs ...*tachyon.LeafPCs) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.tach")
	wholeFile(t, path, 1, edit, pcs...)
	return path
}

func openInput(t *testing.T, path string, o Options) *Input {
	return testenv.Closes(t, testenv.Must(Open(path, o)))
}

func report(t *testing.T, path string) *profile.Report {
	t.Helper()
	return testenv.Must(openInput(t, path, Options{}).Report(profile.ReportOptions{}))
}

// Samples that are asked for again after an error end with the same error.
func TestSPXErrorAgain(t *testing.T) {
	const golden, name = "spx/testdata/spx-full-20261121_041025-vm-18024-1804289383", "late.json"
	dir := t.TempDir()
	meta := regexp.MustCompile(`"exec_ts": \d+`).ReplaceAll(testenv.Must(os.ReadFile(golden+".json")), []byte(`"exec_ts": 1795234234294967296`))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, name), meta, 0o600))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "late.txt.gz"), testenv.Must(os.ReadFile(golden+".txt.gz")), 0o600))
	in := openInput(t, filepath.Join(dir, name), Options{})
	for range 2 {
		testenv.Fails(t, name, testenv.Err(in.Source(stream.Options{})), "is beyond the limit")
	}
}

// In whichever unit it is written, a report is read as what it says.
func TestSPXMicroseconds(t *testing.T) {
	in := session(t, nil)
	dir := t.TempDir()
	testenv.OK(t, convert(in, dir, "spx", Options{Microseconds: true}))
	want, got := report(t, in), report(t, dir)
	testenv.Same(t, "total", got.Total, want.Total)
	for _, row := range got.Rows {
		testenv.Same(t, row.Name, row.Metrics["wt"].Inclusive*1000, float64(row.Total))
	}
}
