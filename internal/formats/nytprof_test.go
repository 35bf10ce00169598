package formats

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

const perlGoldens = "../../nytprof/testdata"

// A real NYTProf file dumps to one line for each chunk that Perl's own reader sees, from a path and from a stream.
// Package nytprof compares the chunks.
func TestDumpNYTProf(t *testing.T) {
	for _, name := range []string{"c01-fib", "c02-fib-z6", "c17-killed"} {
		file := filepath.Join(perlGoldens, name+".nytprof")
		b, want := testenv.Must(os.ReadFile(file)), testenv.Must(os.ReadFile(file+".jsonl"))
		stream := testenv.Must(OpenReader(bytes.NewReader(b), "stdin", Options{}))
		defer stream.Close()
		var dumps [2]bytes.Buffer
		for i, in := range []*Input{openInput(t, file, Options{}), stream} {
			if err := in.Dump(&dumps[i]); in.Format != perlNYTProf || (name == "c17-killed") != (err != nil) {
				t.Errorf("%s is taken for %s, error %v", name, in.Format.Name, err)
			}
		}
		if got := dumps[0].Bytes(); !bytes.Equal(got, dumps[1].Bytes()) || bytes.Count(got, []byte("\n")) != bytes.Count(want, []byte("\n")) {
			t.Errorf("%s: %d bytes from the path, %d from the stream", name, len(got), dumps[1].Len())
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
	info := testenv.Must(in.Info())
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
	testenv.OK(t, convert(file, dir+"/z.nytprof", "", Options{}))
	testenv.OK(t, convert(dir+"/z.nytprof", dir+"/nytprof.out", "", Options{Uncompressed: true}))
	a, _ := os.ReadFile(file)
	z, _ := os.ReadFile(dir + "/z.nytprof")
	b, _ := os.ReadFile(dir + "/nytprof.out")
	if !bytes.Equal(a, b) || len(z) > len(a)/2 {
		t.Errorf("%d bytes became %d, then %d", len(a), len(z), len(b))
	}
	testenv.Fails(t, "a cut off file", convert(perlGoldens+"/c17-killed.nytprof", dir+"/cut", "pprof", Options{}), "offset 78276")
}
