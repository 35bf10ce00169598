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

	"github.com/gotach/profiler/internal/profile"
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

func readerOf(t testing.TB, events string, metrics ...string) (*Reader, error) {
	r, err := newReader(&Metadata{EnabledMetrics: metrics}, strings.NewReader(events), "x.txt.gz")
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

// drain reads all events.
func drain(r *Reader) error {
	for _, err := range r.Events() {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestBadReports(t *testing.T) {
	for _, tt := range []struct {
		events string
		offset int64
		want   string
	}{
		{"", 0, "nothing in the file"},
		{"[event]\n", 0, `the first line is "[event]"`},
		{"[events]\r\n0 1 0\r\n", 0, "CR LF"},
		{"[events]\n0 1 0\r\n", 9, "CR LF"},
		{"[events]\n", 9, "no [functions] section"},
		{"[events]\n[functions]\n", 9, "there are no events"},
		{"[events]\n0 1 0\n0 0 5", 15, "ends inside a line"},
		{"[events]\n0 1 0\n0 0 5\n", 21, "no [functions] section"},
		{"[events]\n0 1 0\n[functions]\nf\n", 15, "end inside 1 calls"},
		{"[events]\n0 1 0\n0 0 5\n[functions]\n", 33, "names function 0, there are 0"},
		{"[events]\n1 1 0\n1 0 5\n[functions]\nf\n", 35, "names function 1, there are 1"},
		{"[events]\n0 1 0\n0 0 5\n[functions]\nf", 33, "ends inside a line"},
		{"[events]\n0 1 7\n", 9, "the first event is at wt 7, not 0"},
		{"[events]\n0 1 0\n0 0 5\n0 1 4\n", 21, "wall time goes back, from 5 to 4"},
		{"[events]\n0 0 0\n", 9, "no call is open"},
		{"[events]\n0 1 0\n1 0 5\n", 15, "function 1 is left, but 0 was entered last"},
		{"[events]\n0 2 0\n", 9, "second field is not 1 or 0"},
		{"[events]\n0\n", 9, "second field is not 1 or 0"},
		{"[events]\n\n", 9, "no function"},
		{"[events]\n-1 1 0\n", 9, "no function"},
		{"[events]\n4294967296 1 0\n", 9, "no function"},
		{"[events]\n0 1\n", 9, `wt is "", not a number`},
		{"[events]\n0 1 1e3\n", 9, `wt is "1e3", not a number`},
		{"[events]\n0 1 nan\n", 9, "not a number"},
		{"[events]\n0 1 0x1\n", 9, "not a number"},
		{"[events]\n0 1 99999999999999999999999\n", 9, "not a number"},
		{"[events]\n0 1 0 0\n", 9, "more values than the 1 metrics"},
		{"[events]\n0 1 " + strings.Repeat("0", maxLine) + "\n", 9, "longer than"},
		{"[events]\n0|r1|0\n", 9, `"r1" is none of the 0 events before`},
		{"[events]\n0|0|a0\n-r2|5\n", 16, `"r2" is none of the 1 events before`},
		{"[events]\n0|0|a0\n-r0|5\n", 16, `"r0" is none of`},
		{"[events]\n0|0\n", 9, "fewer values than the 1 metrics"},
		{"[events]\n0|0|0|0\n", 9, "more values than the 1 metrics"},
		{"[events]\n0|0|ax\n", 9, `wt is "x", not a number`},
		{"[events]\n0|x|0\n", 9, "no function"},
	} {
		r, err := readerOf(t, tt.events, "wt")
		if err == nil {
			err = drain(r)
		}
		testenv.Fails(t, tt.events, err, fmt.Sprintf("x.txt.gz: at byte %d: ", tt.offset))
		testenv.Fails(t, tt.events, err, tt.want)
	}
}

func TestBadMetadata(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "not the metadata",
		"{":                                 "not the metadata",
		"[]":                                "not the metadata",
		"{}":                                "wt is missing",
		`{"enabled_metrics":["ct"]}`:        "wt is missing",
		`{"enabled_metrics":["wt","nope"]}`: `metric "nope" is unknown`,
		`{"enabled_metrics":["wt","wt"]}`:   "there twice",
		`{"enabled_metrics":"wt"}`:          "not the metadata",
		strings.Repeat(" ", maxMetadata+1):  "longer than 1 MiB",
	} {
		err := testenv.Err(readMetadata(strings.NewReader(in), "x.json"))
		testenv.Fails(t, in, err, "x.json: at byte ")
		testenv.Fails(t, in, err, want)
	}
}

func TestEveryMetricIsRead(t *testing.T) {
	metrics := append(slices.Clone(knownMetrics), "mu", "pmu")
	line := strings.Repeat(" 0", len(metrics)) + "\n"
	r := testenv.Must(readerOf(t, "[events]\n0 1"+line+"0 0"+strings.ReplaceAll(line, "0", "7")+"[functions]\nf\n", metrics...))
	sevens := slices.Repeat([]float64{7}, 24)
	testenv.NoDiff(t, "", cmp.Diff([]FunctionTotals{{Function: Function{Name: "f"}, Called: 1, Inc: sevens, Exc: sevens}}, flat(t, r)))
}

// The example of the format's other description, whose times have decimals.
func TestDecimals(t *testing.T) {
	r := testenv.Must(readerOf(t, `[events]
0 1 0.0000 0.0000 1024.0000
1 1 50.1234 45.2341 2048.0000
1 0 125.4567 120.3456 .5
0 0 200.7890 195.6789 -1591.9999
[functions]
main
PDO::__construct
`, "wt", "ct", "mu"))
	var got [][]float64
	for e := range testenv.All(t, r.Events()) {
		got = append(got, slices.Clone(e.Values))
	}
	want := [][]float64{{0, 0, 1024}, {50.1234, 45.2341, 2048}, {125.4567, 120.3456, 0.5}, {200.789, 195.6789, -1592}}
	testenv.NoDiff(t, "", cmp.Diff(want, got))
}

func TestMetadataCountsAreChecked(t *testing.T) {
	const events = "[events]\n0 1 0\n0 0 5\n[functions]\nf\n"
	for meta, want := range map[string]string{
		`{"enabled_metrics":["wt"],"called_function_count":1,"recorded_call_count":1}`: "",
		`{"enabled_metrics":["wt"],"called_function_count":2,"recorded_call_count":1}`: "there are 1 functions, the metadata says 2",
		`{"enabled_metrics":["wt"],"called_function_count":0,"recorded_call_count":1}`: "the metadata says there are 0",
		`{"enabled_metrics":["wt"],"called_function_count":1,"recorded_call_count":2}`: "there are 1 calls, the metadata says 2",
		`{"enabled_metrics":["wt"]}`: "", // as a hand that follows the format's description writes it
	} {
		r := testenv.Must(newReader(testenv.Must(readMetadata(strings.NewReader(meta), "x.json")), strings.NewReader(events), "x.txt"))
		testenv.Fails(t, meta, drain(r), want)
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	testenv.Fails(t, "", testenv.Err(Open(filepath.Join(dir, "k"))), "no such file")
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "k.json"), []byte(`{"enabled_metrics":["wt"]}`), 0o600))
	testenv.Fails(t, "", testenv.Err(Open(filepath.Join(dir, "k.json"))), "no events beside it")
}

func TestEventsCanBeReadOnce(t *testing.T) {
	r := testenv.Closes(t, testenv.Must(Open(goldens(t)[0])))
	testenv.Same(t, "functions before the events", len(r.Functions()), 0)
	testenv.OK(t, drain(r))
	testenv.Fails(t, "", drain(r), "once")
}

// A file of some kilobytes may unpack to any size; it takes no memory.
func TestBombIsStreamed(t *testing.T) {
	testenv.Again(t)
	// allocated returns what reading n times four events allocates.
	unpacked := func(n int, pack func(io.Writer) io.WriteCloser) uint64 {
		t.Helper()
		var file bytes.Buffer
		z := pack(&file)
		testenv.Must(io.WriteString(z, "[events]\n2 1 0\n"+strings.Repeat("0 1 0\n1 1 0\n1 0 0\n0 0 0\n", n)+"2 0 0\n[functions]\na\nb\nc\n"))
		testenv.OK(t, z.Close())
		return testenv.Allocated(func() {
			r := testenv.Closes(t, testenv.Must(newReader(&Metadata{EnabledMetrics: []string{"wt"}}, &file, "bomb")))
			flat := flat(t, r)
			testenv.Same(t, "functions, calls", fmt.Sprint(len(flat), flat[1].Called), fmt.Sprint(3, n))
		})
	}
	for name, pack := range map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser {
			return testenv.Must(zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)))
		},
	} {
		// Both are larger than any window or buffer, by 3.4 MB.
		small, big := unpacked(60_000, pack), unpacked(200_000, pack)
		testenv.Within(t, name+": bytes allocated", big, 0, small+512<<10)
	}
}

func TestDepthIsLimited(t *testing.T) {
	deep := "[events]\n" + strings.Repeat("0 1 0\n", maxDepth+1)
	testenv.Fails(t, "", drain(testenv.Must(readerOf(t, deep, "wt"))), "calls are open")
}

func TestDeepRecursionIsAddedUp(t *testing.T) {
	const depth = 5000 // whose stacks would take more than what is allowed if they did not share memory
	in, out := strings.Repeat("0 1 0\n", depth), strings.Repeat("0 0 7\n", depth)
	r := testenv.Must(readerOf(t, "[events]\n"+in+out+"[functions]\nf\n", "wt"))
	p, totals, err := r.Profile()
	testenv.OK(t, err)
	wall, _ := p.Total()
	testenv.Same(t, "time, records, calls", fmt.Sprint(int(wall), len(p.Records), totals[0].Called, totals[0].Inc[0]), fmt.Sprint(7, depth, depth, 7))
	for i, rec := range p.Records {
		testenv.FailIf(t, len(rec.Stack) != i+1, "record %d has a stack of %d", i, len(rec.Stack))
	}

	// A comb has as many different stacks, which share nothing.
	r = testenv.Must(readerOf(t, "[events]\n"+strings.Repeat("0 1 0\n1 1 0\n1 0 0\n", depth)+out+"[functions]\nf\ng\n", "wt"))
	_, _, err = r.Profile()
	testenv.Fails(t, "a comb", err, "nested too deeply")
}

func FuzzRead(f *testing.F) {
	for _, key := range goldens(f) {
		text := gunzip(f, key+".txt.gz")
		meta := testenv.Must(os.ReadFile(key + ".json"))
		gz := testenv.Must(os.ReadFile(key + ".txt.gz"))
		if len(text) < 1<<14 {
			f.Add(meta, text)
			f.Add(meta, compact(text, 16))
			f.Add(meta, gz)
		}
	}
	f.Add([]byte(`{"enabled_metrics":["wt"]}`), []byte("[events]\n0 1 0\n1 1 2\n1 0 3\n0 0 .5\n[functions]\nf\ng\n"))
	f.Add([]byte(`{"enabled_metrics":["wt","ct"],"custom_metadata_str":"gotach: sampled every 1ms"}`), []byte("[events]\n1f|0|a0|\n-r1|5|-2\n[functions]\n&lt;f:1:g\n"))
	f.Fuzz(func(t *testing.T, meta, events []byte) {
		var r *Reader
		var p *profile.Profile
		var flat []FunctionTotals
		// zstd may ask for a window of 8 MiB whatever the size of the file.
		testenv.Bounded(t, 64<<20+5000*(len(meta)+len(events)), func() {
			m, err := readMetadata(bytes.NewReader(meta), "fuzz.json")
			if err != nil {
				return
			}
			if r, err = newReader(m, bytes.NewReader(events), "fuzz.txt"); err == nil {
				p, flat, _ = r.Profile()
			}
		})
		if r == nil {
			return
		}
		defer r.Close()
		testenv.FailIf(t, r.err != nil && r.Functions() != nil, "a bad report has functions")
		if p == nil {
			return
		}
		called := int64(0)
		for _, f := range flat {
			called += f.Called
		}
		testenv.Same(t, "calls added up", p.Samples, called)
		testenv.FailIf(t, called != r.exits || len(flat) > len(r.Functions()), "%d calls of %d functions, want %d of at most %d", called, len(flat), r.exits, len(r.Functions()))
	})
}
