package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/spx"
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

const spxGoldens = "spx/testdata"

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

// factsOf returns what info says of an input.
func factsOf(in *Input) map[string]any {
	facts := map[string]any{}
	for _, f := range testenv.Must(in.Info()) {
		facts[f.Key] = f.Value
	}
	return facts
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
		testenv.Same(t, path, openInput(t, path, Options{}).Format, spxReport)
		rows := report(t, path).Rows
		row := slices.IndexFunc(rows, func(r profile.Row) bool { return r.Name == `App\Model\gen` })
		testenv.Same(t, path, string(testenv.Must(json.Marshal(rows[row]))), want)
		testenv.Same(t, path, len(rows), 14)
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
		testenv.Fails(t, name, testenv.Err(in.Source(stream.Options{})), "is beyond the limit")
	}
}

func TestSPXPerGoroutine(t *testing.T) {
	dir := t.TempDir()
	testenv.OK(t, convert(session(t, nil), dir, "spx", Options{Goroutines: true}))
	keys := testenv.Must(spx.Keys(dir))
	testenv.Fails(t, "the directory", testenv.Err(Open(dir, Options{})), " SPX reports are in the directory")
	openInput(t, filepath.Join(dir, keys[1]), Options{})
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

func TestSPXOfAStream(t *testing.T) {
	testenv.Fails(t, "one of two files", testenv.Err(OpenReader(strings.NewReader(`{"key":"spx-full-x","enabled_metrics":["wt"]}`), "stdin", Options{})), "two files")
}

func TestDumpSPX(t *testing.T) {
	in := openInput(t, filepath.Join(spxGoldens, "spx-full-20261121_041033-vm-18085-1804289383.txt.gz"), Options{})
	var b bytes.Buffer
	testenv.OK(t, in.Dump(&b))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	testenv.Same(t, "events", len(lines), 38)
	const want = `{"function":"evald","index":2,"enter":false,"metrics":{"wt":177826,"zm":784}}`
	testenv.Same(t, "event", lines[3], want)
	testenv.Same(t, "verified", testenv.Must(in.Verify()), "38 events of 15 functions, at most 3 calls inside one another, metrics wt zm")
	got := factsOf(in)
	testenv.Same(t, "info", fmt.Sprint(got["functions"], got["samples"], got["duration_ns"]), "15 19 1.095931ms")
}

const dcpiGoldens = "dcpi/testdata"

func TestDCPIWithoutItsExecutable(t *testing.T) {
	var warnings []error
	o := Options{Warn: func(err error) { warnings = append(warnings, err) }}
	in := openInput(t, filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), o)
	testenv.Same(t, "taken for", in.Format.Name, "dcpi")
	r := testenv.Must(in.Report(profile.ReportOptions{Top: 1}))
	testenv.Same(t, "report", fmt.Sprint(r.Rows[0].Name, r.Rows[0].Self, r.Left, r.Samples), "server+0x40f0c11.2s 5 134")
	testenv.Same(t, "warnings", len(warnings), 1)
	testenv.Fails(t, "warning", warnings[0], "the executable /srv/app/server is gone")
}

func TestDumpDCPI(t *testing.T) {
	in := openInput(t, filepath.Join(dcpiGoldens, "2-unknown-lines.dcpi"), Options{})
	wall, cpu := testenv.Must(in.Profile()).Total()
	testenv.Same(t, "time and CPU time", [2]time.Duration{wall, cpu}, [2]time.Duration{47 * 190654, 47 * 190654}) // 63488 cycles at 333 MHz each
	var b bytes.Buffer
	testenv.OK(t, in.Dump(&b))
	lines := strings.Split(b.String(), "\n")
	for i, want := range map[int]string{
		0:  `{"word":"version","value":"pdb-0.06"}`,
		18: `{"word":"note","value":"café"}`,
		20: `{"address":"0x12006cbb8","count":29}`,
		25: `{"address":"0x12006cbe8","count":2}`,
		26: "",
	} {
		testenv.Same(t, fmt.Sprint("line ", i), lines[i], want)
	}
	testenv.Same(t, "verified", testenv.Must(in.Verify()), "1 profile, 2 chunks, 6 addresses, 47 samples")
}

func TestDCPICat(t *testing.T) {
	in := openInput(t, filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), Options{})
	var got bytes.Buffer
	testenv.OK(t, in.Write(&got, "dcpicat", Options{}))
	testenv.Same(t, "listing", got.String(), string(testenv.Must(os.ReadFile(filepath.Join(dcpiGoldens, "1-go-sparse.cat")))))
}

func TestDCPINeedsAddresses(t *testing.T) {
	sums := filepath.Join(t.TempDir(), "x.folded")
	testenv.OK(t, os.WriteFile(sums, []byte("main;work 12\n"), 0o600))
	for in, want := range map[string]string{
		sums:                              "needs the addresses of instructions, and a collapsed file names functions",
		session(t, nil):                   "has no addresses of instructions, and names no executable",
		goldens + "/document-v2/tiny.bin": "was not recorded by gotach",
	} {
		testenv.Fails(t, in, convert(in, filepath.Join(t.TempDir(), "db"), "dcpi", Options{}), want)
	}
	testenv.Fails(t, "", convert(filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), filepath.Join(t.TempDir(), "x.tach"), "", Options{}), "a dcpi file has only sums")
}

func TestDCPILax(t *testing.T) {
	b := testenv.Must(os.ReadFile(filepath.Join(dcpiGoldens, "1-go-sparse.dcpi")))
	path := filepath.Join(t.TempDir(), "old")
	testenv.OK(t, os.WriteFile(path, bytes.Replace(b, []byte("tstart\t401000\n"), nil, 1), 0o600))
	testenv.Fails(t, "", testenv.Err(Open(path, Options{})), "no tstart line")
	openInput(t, path, Options{Lax: true})
}

const perlGoldens = "../../nytprof/testdata"

func TestNYTProf(t *testing.T) {
	file := perlGoldens + "/c01-fib.nytprof"
	in := openInput(t, file, Options{})
	r := report(t, file).Rows[0]
	testenv.FailIf(t, r.Name != "main::fib" || r.Called == nil || *r.Called != 134 || r.Line != 3 || !strings.HasSuffix(r.File, "fib.pl"), "first row %+v", r)
	var dump bytes.Buffer
	testenv.OK(t, in.Dump(&dump))
	testenv.Same(t, "lines of the dump, one for each chunk", bytes.Count(dump.Bytes(), []byte("\n")), bytes.Count(testenv.Must(os.ReadFile(file+".jsonl")), []byte("\n")))
	found := testenv.Must(in.Verify())
	testenv.FailIf(t, !strings.Contains(found, "430 statements, 1 files, 6 subs") || strings.Contains(found, "warn"), "verify: %s", found)
	facts := factsOf(in)
	for key, want := range map[string]any{"format": "nytprof", "program": "src/fib.pl", "subs": int64(6), "calls": int64(142), "attribute_perl_version": "5.36.0", "option_calls": "1"} {
		testenv.Same(t, key, facts[key], want)
	}

	// To itself it is copied, chunk by chunk.
	out := filepath.Join(t.TempDir(), "nytprof.out")
	testenv.OK(t, convert(file, out, "", Options{Uncompressed: true}))
	testenv.Same(t, "a copy", string(testenv.Must(os.ReadFile(out))), string(testenv.Must(os.ReadFile(file))))
	testenv.Fails(t, "a cut off file", convert(perlGoldens+"/c17-killed.nytprof", out, "pprof", Options{}), "offset 78276")
}
