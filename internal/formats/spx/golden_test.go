package spx

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// flatGolden is what SPX's own pages make of a report.
type flatGolden struct {
	Metrics []string
	Events  int64
	Flat    []flatFunction
}

type flatFunction struct {
	Name     string
	Called   int64
	Inc, Exc map[string]float64
}

func goldens(t testing.TB) (keys []string) {
	t.Helper()
	files := testenv.Files(t, "testdata/*.flat.json", 6)
	for _, f := range files {
		keys = append(keys, strings.TrimSuffix(f, ".flat.json"))
	}
	return keys
}

func golden(t testing.TB, key string) (g flatGolden) {
	t.Helper()
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile(key+".flat.json")), &g))
	return g
}

// flat returns what each function of a report took.
func flat(t testing.TB, r *Reader) []FunctionTotals {
	t.Helper()
	_, functions, err := r.Profile()
	testenv.OK(t, err)
	return functions
}

func (g *flatGolden) compare(t *testing.T, name string, r *Reader) {
	t.Helper()
	got := flatGolden{Metrics: r.Metadata().EnabledMetrics}
	for _, f := range flat(t, r) {
		x := flatFunction{f.Name, f.Called, map[string]float64{}, map[string]float64{}}
		for k, metric := range got.Metrics {
			x.Inc[metric], x.Exc[metric] = f.Inc[k], f.Exc[k]
		}
		got.Flat = append(got.Flat, x)
	}
	got.Events = r.events
	testenv.NoDiff(t, name, cmp.Diff(*g, got))
	testenv.OK(t, r.Close())
}

func TestGoldens(t *testing.T) {
	for _, key := range goldens(t) {
		g := golden(t, key)
		for _, path := range []string{key, key + ".json", key + ".txt.gz"} {
			g.compare(t, path, testenv.Must(Open(path)))
		}
	}
}

func TestGoldenMetadataIsRewritten(t *testing.T) {
	for _, key := range goldens(t) {
		r := testenv.Closes(t, testenv.Must(Open(key)))
		var b, got, want bytes.Buffer
		text := bytes.ReplaceAll(testenv.Must(os.ReadFile(key+".json")), []byte(`\/`), []byte("/"))
		// Keys and values in the same order; white space may differ.
		testenv.OK(t, errors.Join(r.Metadata().Write(&b), json.Compact(&want, text)))
		testenv.OK(t, json.Compact(&got, b.Bytes()))
		testenv.Same(t, key, got.String(), want.String())
	}
}

func gunzip(t testing.TB, name string) []byte {
	f := testenv.Closes(t, testenv.Must(os.Open(name)))
	return testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(f))))
}

// compact rewrites events in the notation of SPX 0.5, as its page reads it:
// absolute values at the start of each buffer, differences after it, functions
// as references where that is possible.
func compact(text []byte, buffer int) []byte {
	var out bytes.Buffer
	events, functions, _ := strings.Cut(string(text), functionsHeading+"\n")
	var recent []string
	var last []int64
	for i, line := range strings.Split(strings.TrimSuffix(events, "\n"), "\n") {
		if i == 0 {
			fmt.Fprintln(&out, line)
			continue
		}
		f := strings.Fields(line)
		if f[1] == "1" {
			fmt.Fprintf(&out, "%x|", i)
		} else {
			out.WriteByte('-')
		}
		if n := slices.Index(recent, f[0]); n >= 0 && i%3 > 0 {
			fmt.Fprintf(&out, "r%d", n+1)
		} else {
			out.WriteString(f[0])
		}
		recent = slices.Insert(recent, 0, f[0])
		recent = recent[:min(len(recent), window)]
		values := make([]int64, len(f)-2)
		for k := range values {
			x, _ := strconv.ParseFloat(f[2+k], 64)
			values[k] = int64(x + 0.5)
			if x < 0 {
				values[k] = int64(x - 0.5)
			}
			switch {
			case (i-1)%buffer == 0:
				fmt.Fprintf(&out, "|a%d", values[k])
			case values[k] == last[k]:
				out.WriteString("|")
			default:
				fmt.Fprintf(&out, "|%d", values[k]-last[k])
			}
		}
		last = values
		out.WriteByte('\n')
	}
	fmt.Fprintln(&out, functionsHeading)
	for i, name := range strings.Split(strings.TrimSuffix(functions, "\n"), "\n") {
		fmt.Fprintf(&out, "/srv/a b:c/x.php:%d:%s\n", i, name)
	}
	return out.Bytes()
}

func TestGoldensInTheNotationOfSPX05(t *testing.T) {
	dir := t.TempDir()
	for _, key := range goldens(t) {
		meta := testenv.Must(os.ReadFile(key + ".json"))
		z := testenv.Must(zstd.NewWriter(nil))
		path := filepath.Join(dir, filepath.Base(key))
		testenv.OK(t, os.WriteFile(path+".json", meta, 0o600))
		testenv.OK(t, os.WriteFile(path+".txt.zst", z.EncodeAll(compact(gunzip(t, key+".txt.gz"), 256), nil), 0o600))
		r := testenv.Must(Open(path))
		g := golden(t, key)
		g.compare(t, path, r)
		for i, f := range r.Functions() {
			testenv.Same(t, f.Name, fmt.Sprint(f.File, f.Line), fmt.Sprint("/srv/a b:c/x.php", i))
		}
		r = testenv.Must(Open(path + ".txt.zst"))
		n := 0
		for e := range testenv.All(t, r.Events()) {
			n++
			testenv.FailIf(t, e.Enter && e.Line != uint32(n) || !e.Enter && e.Line != 0, "event %d is called from line %d", n, e.Line)
		}
		r.Close()
	}
}

func TestNamesSurvive(t *testing.T) {
	for name, want := range map[string]string{
		"main.(*T[...]).f":   "main.(*T[...]).f",
		"a<b>":               "a&lt;b&gt;",
		"&lt;":               "&amp;lt;",
		"größe":              "gr&#246;&#223;e",
		`"it's"`:             "&#34;it&#39;s&#34;",
		"constructor":        "&#99;onstructor",
		"main.constructor":   "main.constructor",
		"[functions]":        "&#91;functions]",
		"[select]":           "[select]",
		"":                   "(no name)",
		"two\nlines\r\tmore": "two lines  more",
	} {
		testenv.Same(t, name, escape(name), want)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.StringOfN(rapid.RuneFrom([]rune("<>&;#\"'ltampg39äß☺ .")), 1, 12, -1),
			rapid.SampledFrom(objectKeys),
			rapid.StringMatching(`[ -~]{1,20}`),
		).Draw(t, "name")
		got := escape(name)
		if strings.Trim(got, " !#$%&'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "" || strings.ContainsAny(got, "<>\"'") {
			t.Fatalf("%q is written %q", name, got)
		}
		testenv.Same(t, got, [2]string{unescape(got), html.UnescapeString(got)}, [2]string{name, name})
	})
}
