package formats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// Names and extensions are one format's only, and there is a line on each.
func TestTable(t *testing.T) {
	owner := map[string]string{}
	claim := func(key, name string) {
		t.Helper()
		if o, ok := owner[key]; ok {
			t.Errorf("%s is %s's and %s's", key, o, name)
		}
		owner[key] = name
	}
	for _, f := range All() {
		claim(f.Name, f.Name)
		for _, e := range f.Extensions {
			claim(e, f.Name)
		}
		if f.Doc == "" || strings.ContainsAny(f.Doc, "\n\t") || len(f.Doc) > 70 {
			t.Errorf("%s: doc %q", f.Name, f.Doc)
		}
		if !f.CanRead() && !f.CanWrite() {
			t.Errorf("%s is of no use", f.Name)
		}
		got, err := ByName(f.Name)
		if err != nil || got != f {
			t.Errorf("ByName(%q) = %v, %v", f.Name, got, err)
		}
	}
	for _, c := range []struct{ name, want string }{
		{"folded", "collapsed"}, {"PPROF", "pprof"}, {"pb.gz", "pprof"}, {"bin", "cpython315"},
	} {
		if f, err := ByName(c.name); err != nil || f.Name != c.want {
			t.Errorf("ByName(%q) = %v, %v", c.name, f, err)
		}
	}
	if _, err := ByName("fortran"); err == nil || !strings.Contains(err.Error(), "there are tach, cpython315") {
		t.Errorf("error %v", err)
	}
	for _, c := range []struct{ path, want string }{
		{"a/app.tach", "tach"}, {"app.pb.gz", "pprof"}, {"X.FOLDED", "collapsed"}, {"a.jsonl", "jsonl"},
	} {
		if f, err := TargetFormat(c.path, ""); err != nil || f.Name != c.want {
			t.Errorf("TargetFormat(%q) = %v, %v", c.path, f, err)
		}
	}
	if _, err := TargetFormat("app", ""); err == nil {
		t.Error("a name without an extension tells a format")
	}
}

// golden is the golden that the tests here make all other files from.
const golden = goldens + "/document-v2/none.bin"

// samples makes a file of each format that can be made of a Tachyon file and
// is not a directory.
func samples(t testing.TB) map[string]string {
	t.Helper()
	dir := t.TempDir()
	out := map[string]string{}
	for _, f := range All() {
		if !f.CanWrite() || f.Directory {
			continue
		}
		path := filepath.Join(dir, "x-"+f.Name)
		if err := convert(golden, path, f.Name, Options{NoSource: true}); err != nil {
			if f.Name == "dcpicat" {
				continue // needs the addresses that only gotach's own files have
			}
			t.Fatalf("%s: %v", f.Name, err)
		}
		out[f.Name] = path
	}
	return out
}

// Every format is told by its content alone, and every pair of formats either
// converts or says why it cannot.
func TestConvertAll(t *testing.T) {
	for name, path := range samples(t) {
		f, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if !f.CanRead() {
			continue
		}
		in, err := Open(path, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if in.Format != f {
			t.Errorf("a %s file is taken for %s", name, in.Format.Name)
		}
		for _, to := range All() {
			out := filepath.Join(t.TempDir(), "out")
			err := in.Convert(out, to.Name, Options{NoSource: true})
			_, isSeries := in.content.(series)
			switch {
			case !to.CanWrite():
				if err == nil {
					t.Errorf("%s to %s: written, though it cannot be", name, to.Name)
				}
			case strings.HasPrefix(to.Name, "dcpi"):
				if err == nil || !strings.Contains(err.Error(), "address") {
					t.Errorf("%s to %s: error %v", name, to.Name, err)
				}
			case (to.Series || to.Runs) && !isSeries:
				if err == nil || !strings.Contains(err.Error(), "has only sums") {
					t.Errorf("%s to %s: error %v", name, to.Name, err)
				}
				if _, err := os.Stat(out); err == nil {
					t.Errorf("%s to %s: left a file", name, to.Name)
				}
			case err != nil:
				t.Errorf("%s to %s: %v", name, to.Name, err)
			case !to.Directory:
				if fi, err := os.Stat(out); err != nil || fi.Mode().Perm() != 0o600 {
					t.Errorf("%s to %s: %v, %v", name, to.Name, fi, err)
				}
			}
		}
		if err := in.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

// The report of a profile is the same whatever format it went through.
func TestReportsAgree(t *testing.T) {
	report := func(path string) *profile.Report {
		t.Helper()
		r, err := openInput(t, path, Options{}).Report(profile.ReportOptions{Top: 40})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := report(golden)
	paths := samples(t)
	for _, name := range []string{"tach", "cpython315", "pprof", "jsonl", "collapsed"} {
		got := report(paths[name])
		if len(got.Rows) != len(want.Rows) || got.Total != want.Total {
			t.Errorf("%s: %d rows, %v; want %d, %v", name, len(got.Rows), got.Total, len(want.Rows), want.Total)
			continue
		}
		for i, w := range want.Rows {
			g := got.Rows[i]
			if name == "collapsed" { // which has neither files nor CPU time
				w.File, w.Line, w.SelfCPU, w.TotalCPU = "", 0, 0, 0
			}
			if g.Name != w.Name || g.File != w.File || g.Line != w.Line || g.Self != w.Self || g.Total != w.Total || g.SelfCPU != w.SelfCPU || g.TotalCPU != w.TotalCPU {
				t.Errorf("%s: row %d is %+v, want %+v", name, i, g, w)
			}
		}
	}
}

// use does to a file all that can be done to one. Errors are fine.
func use(path string, o Options) {
	in, err := Open(path, o)
	if err != nil {
		return
	}
	defer in.Close()
	_, _ = in.Info()
	_, _ = in.Verify()
	_, _ = in.Report(profile.ReportOptions{By: profile.ByGoroutine, Focus: regexp.MustCompile("a")})
	_ = in.Dump(io.Discard)
	for _, to := range []string{"pprof", "flamegraph", "firefox", "speedscope"} {
		_ = in.Write(io.Discard, to, Options{Uncompressed: true})
	}
}

// Files that are cut off or have wrong bytes give errors or reports, in any
// format they may be taken for, and never a panic.
func TestHostile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	try := func(b []byte, o Options) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		use(path, o)
	}
	bad, err := filepath.Glob(goldens + "/bad/*.bin")
	if err != nil || len(bad) < 50 {
		t.Fatalf("%d bad files, %v", len(bad), err)
	}
	for _, name := range bad {
		if strings.Contains(name, "bomb") || strings.Contains(name, "256MiB") {
			continue // fine, but slow; the reader's own tests have them
		}
		use(name, Options{})
		use(name, Options{From: "pprof"})
	}
	if err := convert(goldens+"/document-v2/tiny.bin", path, "pprof", Options{}); err != nil {
		t.Fatal(err)
	}
	small := map[string][]byte{}
	for _, f := range All() {
		if f.CanWrite() && !f.Directory && f.Name != "dcpicat" {
			if err := convert(goldens+"/document-v2/tiny.bin", path, f.Name, Options{Uncompressed: true}); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			small[f.Name] = b
		}
	}
	for name, b := range small {
		for i := 0; i < len(b); i += 1 + len(b)/16 {
			try(b[:i], Options{From: name})
			c := bytes.Clone(b)
			c[i] ^= 0xff
			try(c, Options{From: name})
			c[i] = b[i] ^ 1
			try(c, Options{})
		}
		for _, as := range All() { // a file of one format taken for another
			try(b, Options{From: as.Name})
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"tach", "pprof", "collapsed", "jsonl", "nytprof", "pynytprof"} {
		path := filepath.Join(f.TempDir(), "x")
		if err := convert(goldens+"/document-v2/tiny.bin", path, name, Options{Uncompressed: true}); err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "")
		f.Add(b, name)
	}
	f.Fuzz(func(t *testing.T, b []byte, from string) {
		n := testenv.Allocated(func() {
			in, err := OpenReader(bytes.NewReader(b), "fuzz", Options{From: from})
			if err != nil {
				return
			}
			defer in.Close()
			_, _ = in.Info()
			_, _ = in.Report(profile.ReportOptions{})
			_ = in.Dump(io.Discard)
		})
		if n > uint64(256<<20+20_000*len(b)) {
			t.Errorf("%d bytes allocated for an input of %d", n, len(b))
		}
	})
}

// A file that unpacks to very much is refused before it has.
func TestGzipBomb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.pb.gz")
	if err := os.WriteFile(path, bomb(t), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{})
	if err == nil || !strings.Contains(err.Error(), "unpack to more than") {
		t.Errorf("error %v", err)
	}
}

// A temporary file of a series in another format is gone after Close, and after
// an error.
func TestNothingLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	in, err := OpenReader(strings.NewReader(`{"thread_id":1,"timestamp":5,"frames":[]}`), "x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Write(io.Discard, "tach", Options{}); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReader(strings.NewReader(`{"thread_id":1,"timestamp":5,"frames":[]}`+"\nprose"), "x", Options{}); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
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

func ExampleInput_Convert() {
	dir, err := os.MkdirTemp("", "gotach-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	in, err := Open("../../testdata/tachyon/document-v2/tiny.bin", Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	out := filepath.Join(dir, "tiny.folded")
	if err := in.Convert(out, "", Options{}); err != nil {
		log.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(b))
	// Output:
	// main.main;main.run 1000
	// main.main;main.run;main.(*Worker).step 5000
	// main.main;main.run;main.(*Worker).step;strings.(*Builder).WriteString 1000
	// runtime.gopark 4000
	// runtime.gopark;strings.(*Builder).WriteString 1000
}

func ExampleOpen() {
	in, err := Open("../../testdata/tachyon/document-v2/tiny.bin", Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	r, err := in.Report(profile.ReportOptions{By: profile.ByGoroutine})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range r.Rows {
		fmt.Println(row.Name, row.Total)
	}
	// Output:
	// goroutine 1 main.main 9ms
	// goroutine 2 runtime.gopark 3ms
}

func ExampleInput_Write() {
	in, err := OpenReader(strings.NewReader("main.main;main.work 60\n"), "stacks", Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	fmt.Println(in.Write(os.Stdout, "collapsed", Options{}))
	fmt.Println(in.Write(os.Stdout, "tach", Options{}))
	// Output:
	// main.main;main.work 60
	// <nil>
	// cannot make a tach file of it: that needs each sample and its time, and a collapsed file has only sums
}

// Work that is called off leaves nothing behind.
func TestCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("called off")
	dir := t.TempDir()
	out := filepath.Join(dir, "out.tach")
	o := Options{Context: ctx, Progress: func(uint64, uint64) { cancel(why) }}
	err := convert(goldens+"/document-v2/big.zstd.bin", out, "", o)
	if !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
