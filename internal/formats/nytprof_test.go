package formats

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const perlGoldens = "../../nytprof/testdata"

// Every real NYTProf file dumps to the chunks that Perl's own reader sees, from a
// path and from a stream; what differs is the UTF-8 mark, which sticks there.
func TestDumpNYTProf(t *testing.T) {
	files, err := filepath.Glob(perlGoldens + "/*.nytprof")
	if err != nil || len(files) < 11 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, stream := range []bool{false, true} {
			var in *Input
			if stream {
				in, err = OpenReader(bytes.NewReader(b), "stdin", Options{})
			} else {
				in, err = Open(file, Options{})
			}
			if err != nil {
				t.Fatal(err)
			}
			if in.Format.Name != "nytprof" {
				t.Errorf("%s is taken for %s", file, in.Format.Name)
			}
			var got bytes.Buffer
			err = in.Dump(&got)
			if cut := strings.Contains(file, "c17"); cut != (err != nil) {
				t.Errorf("%s: error %v", file, err)
			}
			sameChunks(t, file, got.String(), string(want))
			in.Close()
		}
	}
}

// sameChunks compares JSON lines without the marks.
func sameChunks(t *testing.T, file, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(g) != len(w) {
		t.Fatalf("%s: %d lines, want %d", file, len(g), len(w))
	}
	text := func(line string) (v []any) {
		if line == "" {
			return nil
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for i, e := range v {
			if m, ok := e.(map[string]any); ok {
				if s, ok := m["utf8"]; ok {
					v[i] = s
				} else if b, err := hex.DecodeString(m["hex"].(string)); err == nil {
					v[i] = string(b)
				}
			}
		}
		return v
	}
	for i := range g {
		if diff := cmp.Diff(text(w[i]), text(g[i])); diff != "" {
			t.Fatalf("%s line %d: %s", file, i+1, diff)
		}
	}
}

func TestNYTProf(t *testing.T) {
	file := perlGoldens + "/c01-fib.nytprof"
	in := openInput(t, file, Options{})
	if r := report(t, file).Rows[0]; r.Name != "main::fib" || r.Called == nil || *r.Called != 134 || r.Line != 3 || !strings.HasSuffix(r.File, "fib.pl") {
		t.Errorf("first row %+v", r)
	}
	found, err := in.Verify()
	if err != nil || !strings.Contains(found, "430 statements, 1 files, 6 subs") || strings.Contains(found, "warn") {
		t.Errorf("verify: %s, %v", found, err)
	}
	info, err := in.Info()
	if err != nil {
		t.Fatal(err)
	}
	facts := make(map[string]any)
	for _, f := range info {
		facts[f.Key] = f.Value
	}
	for key, want := range map[string]any{"format": "nytprof", "program": "src/fib.pl", "subs": int64(6), "calls": int64(142), "attribute_perl_version": "5.36.0", "option_calls": "1"} {
		if facts[key] != want {
			t.Errorf("%s is %v, want %v", key, facts[key], want)
		}
	}

	// To itself it is copied, chunk by chunk.
	dir := t.TempDir()
	if err := convert(file, dir+"/z.nytprof", "", Options{}); err != nil {
		t.Fatal(err)
	}
	if err := convert(dir+"/z.nytprof", dir+"/nytprof.out", "", Options{Uncompressed: true}); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(file)
	z, _ := os.ReadFile(dir + "/z.nytprof")
	b, _ := os.ReadFile(dir + "/nytprof.out")
	if !bytes.Equal(a, b) || len(z) > len(a)/2 {
		t.Errorf("%d bytes became %d, then %d", len(a), len(z), len(b))
	}
	if err := convert(perlGoldens+"/c17-killed.nytprof", dir+"/cut", "pprof", Options{}); err == nil || !strings.Contains(err.Error(), "offset 78276") {
		t.Errorf("a cut off file: %v", err)
	}
}

// What becomes of a Tachyon file keeps its functions' times.
func TestBothDialects(t *testing.T) {
	file := filepath.Join(goldens, "document-v2", "rle.bin")
	want := functionTimes(t, file)
	if len(want) == 0 {
		t.Fatal("no functions")
	}
	for _, to := range []string{"nytprof", "pynytprof"} {
		out := filepath.Join(t.TempDir(), "x."+to)
		if err := convert(file, out, "", Options{NoSource: true}); err != nil {
			t.Fatal(err)
		}
		if in := openInput(t, out, Options{}); in.Format.Name != to {
			t.Errorf("%s is taken for %s", to, in.Format.Name)
		}
		if diff := cmp.Diff(want, functionTimes(t, out)); diff != "" {
			t.Errorf("%s: %s", to, diff)
		}
	}
}

// functionTimes returns the self time of the functions in µs, by the last part
// of their names: in NYTProf files all have a package.
func functionTimes(t *testing.T, file string) map[string]int64 {
	times := make(map[string]int64)
	for _, r := range report(t, file).Rows {
		if r.Self > 0 {
			times[r.Name[strings.LastIndexByte(r.Name, '.')+1:]] += r.Self.Microseconds()
		}
	}
	return times
}
