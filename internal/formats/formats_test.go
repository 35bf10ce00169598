package formats

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
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
