package formats

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"pgregory.net/rapid"
)

// Names and extensions are one format's only, and there is a line on each.
func TestTable(t *testing.T) {
	owner := map[string]*Format{}
	for _, f := range All() {
		for _, key := range append([]string{f.Name}, f.Extensions...) {
			if o := owner[key]; o != nil {
				t.Errorf("%s is %s's and %s's", key, o.Name, f.Name)
			}
			owner[key] = f
		}
		testenv.FailIf(t, f.Doc == "" || strings.ContainsAny(f.Doc, "\n\t") || len(f.Doc) > 70, "%s: doc %q", f.Name, f.Doc)
		testenv.Same(t, f.Name+" is of use", f.CanRead() || f.CanWrite(), true)
		testenv.Same(t, "by name "+f.Name, testenv.Must(ByName(f.Name)), f)
	}
	for name, want := range map[string]*Format{"folded": folded, "PPROF": pprofFormat, "pb.gz": pprofFormat, "bin": cpython315} {
		testenv.Same(t, name, testenv.Must(ByName(name)), want)
	}
	testenv.Fails(t, "", testenv.Err(ByName("fortran")), "there are tach, cpython315")
	for path, want := range map[string]*Format{"a/app.tach": tachFormat, "app.pb.gz": pprofFormat, "X.FOLDED": folded, "a.jsonl": jsonLines, "app": nil} {
		f, err := TargetFormat(path, "")
		testenv.FailIf(t, f != want || (err != nil) != (want == nil), "TargetFormat(%q) = %v, %v", path, f, err)
	}
}

const goldens = "../../testdata/tachyon"

// golden is the golden that the tests here make all other files from.
const golden = goldens + "/document-v2/tiny.bin"

// samples makes a file of each format that can be made of a Tachyon file and
// is not a directory.
func samples(t testing.TB, o Options) map[string]string {
	t.Helper()
	dir, out := t.TempDir(), map[string]string{}
	for _, f := range All() {
		if f.CanWrite() && !f.Directory && f.Name != "dcpicat" { // it needs the addresses that only gotach's own files have
			out[f.Name] = filepath.Join(dir, "x-"+f.Name)
			testenv.OK(t, convert(golden, out[f.Name], f.Name, o))
		}
	}
	return out
}

// Every format is told by its content alone, and every pair of formats either
// converts or says why it cannot.
func TestConvertAll(t *testing.T) {
	for name, path := range samples(t, Options{NoSource: true}) {
		if !testenv.Must(ByName(name)).CanRead() {
			continue
		}
		in := testenv.Must(Open(path, Options{}))
		testenv.Same(t, "what "+name+" is taken for", in.Format.Name, name)
		for _, to := range All() {
			out := filepath.Join(t.TempDir(), "out")
			err := in.Convert(out, to.Name, Options{NoSource: true})
			_, isSeries := in.content.(series)
			switch {
			case !to.CanWrite():
				testenv.Fails(t, name+" to "+to.Name, err, "write")
			case strings.HasPrefix(to.Name, "dcpi"):
				testenv.Fails(t, name, err, "address")
			case (to.Series || to.Runs) && !isSeries:
				testenv.Fails(t, name, err, "has only sums")
				testenv.Is(t, "the file", testenv.Err(os.Stat(out)), os.ErrNotExist)
			case err != nil:
				t.Errorf("%s to %s: %v", name, to.Name, err)
			case !to.Directory:
				testenv.Same(t, name+" to "+to.Name, testenv.Must(os.Stat(out)).Mode().Perm(), 0o600)
			}
		}
		testenv.OK(t, in.Close())
	}
}

// Whatever a profile has, its report is the same in each format that it went through: the times of each function, and its
// place where the format keeps places.
func TestReportsAgree(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "x.tach"), filepath.Join(dir, "out")
	frame := rapid.SampledFrom([]tachyon.Frame{
		{Func: "main.main", File: "/src/main.go", Line: 3}, {Func: "main.main", File: "/src/main.go", Line: 5},
		{Func: "main.(*T[...]).f", File: "/src/t.go", Line: 7}, {Func: "a.b/c.g.func1", File: "/src/c.go", Line: 1},
		{Func: "x/y%2ez.Map[go.shape.int,é<&>\"]", File: "/src/a b.go", Line: 9}, {Func: "runtime.goexit", File: "/go/asm.s", Line: 2},
	})
	type times struct{ Self, Total, SelfCPU, TotalCPU time.Duration }
	report := func(path, format string) (map[string]times, map[string]string) {
		in := testenv.Must(Open(path, Options{From: format}))
		defer in.Close()
		functions, places := map[string]times{}, map[string]string{}
		for _, r := range testenv.Must(in.Report(profile.ReportOptions{})).Rows {
			if r.Total > 0 {
				functions[r.Name] = times{r.Self, r.Total, r.SelfCPU, r.TotalCPU}
				places[r.Name] = fmt.Sprint(r.File, ":", r.Line)
			}
		}
		return functions, places
	}
	rapid.Check(t, func(t *rapid.T) {
		w := testenv.Must(writer.Create(path, writer.Options{Start: joinStart, Interval: 1000, NoJournal: true}))
		now := uint64(joinStart)
		for range rapid.IntRange(1, 40).Draw(t, "samples") {
			now += rapid.Uint64Range(0, 5000).Draw(t, "step")
			s := tachyon.Sample{Thread: rapid.Uint64Range(1, 3).Draw(t, "goroutine"), Time: now, Status: tachyon.HasGIL | tachyon.OnCPU}
			stack := rapid.SliceOfN(frame, 1, 6).Draw(t, "stack")
			if rapid.Bool().Draw(t, "waits") {
				s.Status, stack = 0, append([]tachyon.Frame{{Func: "[select]"}}, stack...)
			}
			testenv.OK(t, w.WriteFrames(&s, stack))
		}
		testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Program: "app", Start: time.UnixMicro(joinStart), Markers: true}))
		testenv.OK(t, w.Close())
		want, wantPlaces := report(path, "")
		for _, f := range All() {
			if !f.CanRead() || !f.CanWrite() || f == dcpiDatabase || f == cpython315 {
				continue // the last one's samples stand for whole intervals
			}
			testenv.OK(t, os.RemoveAll(out))
			testenv.OK(t, convert(path, out, f.Name, Options{NoSource: true, Uncompressed: true}))
			got, places := report(out, f.Name)
			for name, w := range want {
				g := got[name]
				switch f { // some have no CPU times, and one has no stacks
				case pyNYTProf:
					w.Total, g.Total = 0, 0
					fallthrough
				case folded, perlNYTProf:
					w.SelfCPU, w.TotalCPU = 0, 0
				}
				if name == "runtime.goexit" && f == perlNYTProf {
					continue // is the caller of all, not a sub
				}
				if g != w || (f == tachFormat || f == pprofFormat || f == jsonLines) && places[name] != wantPlaces[name] {
					t.Errorf("%s: %s at %s has %+v, want %+v at %s", f.Name, name, places[name], g, w, wantPlaces[name])
				}
			}
		}
	})
}

// The first bytes of a file tell its format, whether whole lines or cut off.
func TestSniff(t *testing.T) {
	for head, want := range map[string]*Format{
		"a;b 1\nc;d 2\n":                       folded,
		"a;b 1\nc;d cut of":                    folded,
		"a;b 1":                                folded,
		"goroutine 1;main.main 5\r\n":          folded,
		"main 1\n":                             nil,
		"hello world\n":                        nil,
		"a;b 1\nprose\n":                       nil,
		"":                                     nil,
		"a;b\x00 1\n":                          nil,
		`{"thread_id":1,"timestamp":5}` + "\n": jsonLines,
		`{"thread_id":1,"frames":[["cut off`:   jsonLines,
		`{"gotach":"file","start_us":1,"interval_us":2}` + "\n": jsonLines,
		`{"thread_id":1,` + "\n":                                nil,
		`{"key":"spx"}` + "\n":                                  nil,
		`{"meta":{}}`:                                           nil,
		`{"$schema":""}`:                                        nil,
		"<svg></svg>":                                           nil,
	} {
		got, _ := testenv.Must(streamSource(strings.NewReader(head), "x")).format()
		testenv.Same(t, head, got, want)
	}
}

// Files of any bytes give errors or reports, in any format they may be taken for, and never a panic.
func FuzzOpen(f *testing.F) {
	for _, bad := range testenv.Files(f, goldens+"/bad/*.bin", 50) {
		if !strings.Contains(bad, "bomb") && !strings.Contains(bad, "256MiB") { // slow; the reader's own tests have them
			f.Add(testenv.Must(os.ReadFile(bad)), "")
		}
	}
	files := samples(f, Options{Uncompressed: true})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b := testenv.Must(os.ReadFile(files[name]))
		f.Add(b, "")
		f.Add(b[:len(b)/2], "")
		for i := range 16 {
			broken := slices.Clone(b)
			broken[i*len(b)/16] ^= 0xff
			f.Add(broken, name)
			f.Add(broken, "")
		}
		for _, as := range All() { // also one of another format
			f.Add(b, as.Name)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, from string) {
		testenv.Bounded(t, 256<<20+20_000*len(b), func() {
			in, err := OpenReader(bytes.NewReader(b), "fuzz", Options{From: from})
			if err != nil {
				return
			}
			defer in.Close()
			_, _ = in.Info()
			_, _ = in.Verify()
			_, _ = in.Report(profile.ReportOptions{By: profile.ByGoroutine})
			_ = in.Dump(io.Discard)
			_ = in.Write(io.Discard, "firefox", Options{Uncompressed: true})
			_ = in.Write(io.Discard, "pprof", Options{Uncompressed: true})
		})
	})
}

// A file that unpacks to very much is refused before it has.
func TestGzipBomb(t *testing.T) {
	var b bytes.Buffer
	z := testenv.Must(gzip.NewWriterLevel(&b, gzip.BestSpeed))
	for range 24 {
		testenv.Must(z.Write(make([]byte, 1<<20)))
	}
	testenv.OK(t, z.Close())
	testenv.Fails(t, "24 MB of nothing", testenv.Err(OpenReader(&b, "x.pb.gz", Options{})), "unpack to more than")
}

// A temporary file of a series in another format is gone after Close, and after
// an error.
func TestNothingLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	in := testenv.Must(OpenReader(strings.NewReader(`{"thread_id":1,"timestamp":5,"frames":[]}`), "x", Options{}))
	testenv.OK(t, in.Write(io.Discard, "tach", Options{}))
	testenv.OK(t, in.Close())
	testenv.Fails(t, "prose", testenv.Err(OpenReader(strings.NewReader(`{"thread_id":1,"timestamp":5,"frames":[]}`+"\nprose"), "x", Options{})), "line 2")
	testenv.Empty(t, tmp)
}

// convert makes a file of another format.
func convert(in, out, to string, o Options) error {
	i, err := Open(in, o)
	if err != nil {
		return err
	}
	defer i.Close()
	return i.Convert(out, to, o)
}

// Files are written in each check, so there are few.
func init() { _ = flag.Set("rapid.checks", fmt.Sprint(testenv.Times(10, 1000))) }

// Work that is called off leaves nothing behind.
func TestCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("called off")
	dir := t.TempDir()
	out := filepath.Join(dir, "out.tach")
	o := Options{Context: ctx, Progress: func(uint64, uint64) { cancel(why) }}
	testenv.Fails(t, "", convert(goldens+"/document-v2/big.zstd.bin", out, "", o), why.Error())
	testenv.Empty(t, dir)
}

// TestPace: half of the time is a pause, but there is none for less than 200 µs of work, and none is longer than 10 ms.
func TestPace(t *testing.T) {
	for work, whole := range map[time.Duration]time.Duration{
		60 * time.Microsecond: 60 * time.Microsecond,
		2 * time.Millisecond:  4 * time.Millisecond,
		50 * time.Millisecond: 60 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, pause := time.Now(), Pace()
			for range 3 {
				time.Sleep(work)
				pause()
			}
			testenv.Same(t, fmt.Sprint("three times ", work), time.Since(begin), 3*whole)
		})
	}
}

// Converting between the layouts gives the files that CPython and an
// independent program wrote, byte for byte. What the document's layout has no
// place for is made the same first: Python's version, mode and features.
func TestConvertGoldens(t *testing.T) {
	testenv.Again(t)
	out := filepath.Join(t.TempDir(), "out")
	// The threads of the file rle come in another order than in time, and so do the repeats at its end.
	for _, name := range []string{"deep", "empty", "emptystack", "interp", "meta", "none", "tiny", "unicode"} {
		read := func(folder string) []byte {
			return testenv.Must(os.ReadFile(filepath.Join(goldens, folder, name+".bin")))
		}
		v1, v2 := read("cpython-3.15"), read("document-v2")
		for _, ext := range []string{".bin", ".zstd.bin"} {
			for _, from := range []string{"cpython-3.15", "document-v2"} {
				for to, want := range map[string][]byte{"cpython315": v1, "tach": v2} {
					testenv.OK(t, convert(filepath.Join(goldens, from, name+ext), out, to, Options{Uncompressed: true}))
					got := testenv.Must(os.ReadFile(out))
					if from == "document-v2" && to == "cpython315" {
						if name == "meta" || name == "deep" || name == "unicode" {
							continue // their frames have columns, or statistics follow
						}
						copy(got[8:12], v1[8:12])
						binary.LittleEndian.PutUint32(got[60:], binary.LittleEndian.Uint32(v1[60:]))
					}
					testenv.Same(t, fmt.Sprint(from, "/", name+ext, " to ", to), string(got), string(want))
				}
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
