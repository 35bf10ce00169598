package dcpi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

func goldens(t testing.TB) []string {
	t.Helper()
	return testenv.Files(t, "testdata/*.dcpi", 8)
}

func read(t testing.TB, name string) []byte {
	return testenv.Must(os.ReadFile(name))
}

func write(t testing.TB, p *Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, p.Write(&b))
	return b.Bytes()
}

// A spec says the lines and either the counts, to be packed, or the chunks of a
// golden file.
type spec struct {
	Lines  [][2]string
	Counts map[string]uint32
	Chunks [][2]json.RawMessage
}

// latin1 returns the bytes of a text whose characters stand for bytes.
func latin1(s string) string {
	var b []byte
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

func (s *spec) profile(t *testing.T) *Profile {
	t.Helper()
	p := &Profile{}
	for _, l := range s.Lines {
		p.Lines = append(p.Lines, NewLine(l[0], latin1(l[1])))
	}
	for _, c := range s.Chunks {
		var k chunk
		testenv.OK(t, errors.Join(json.Unmarshal(c[0], &k.Offset), json.Unmarshal(c[1], &k.Counts)))
		p.Chunks = append(p.Chunks, k)
	}
	if s.Counts != nil {
		var counts []addrCount
		for a, n := range s.Counts {
			counts = append(counts, addrCount{testenv.Must(strconv.ParseUint(a, 0, 64)), n})
		}
		testenv.OK(t, p.Add(slices.Values(counts)))
	}
	return p
}

// Golden files are rewritten byte for byte, made of their specs, and shown as their listings.
func TestGoldens(t *testing.T) {
	specs := 0
	for _, name := range goldens(t) {
		p := testenv.Must(ReadFile(name, Options{}))
		want := read(t, name)
		testenv.Same(t, name+", rewritten", string(write(t, p)), string(want))
		base := strings.TrimSuffix(name, ".dcpi")
		if b, err := os.ReadFile(base + ".spec.json"); err == nil {
			specs++
			var s spec
			testenv.OK(t, json.Unmarshal(b, &s))
			testenv.Same(t, name+", of its spec", string(write(t, s.profile(t))), string(want))
		}
		var cat strings.Builder
		testenv.OK(t, p.Cat(&cat))
		testenv.Same(t, name, cat.String(), string(read(t, base+".cat")))
	}
	testenv.Within(t, "specs", specs, 4, 100)
}

func TestBadFilesAreRefused(t *testing.T) {
	reasons := map[string]struct {
		offset int64
		reason string
	}{
		"bad-period.dcpi":     {90, `period is "1e7", not a decimal number`},
		"big-endian.dcpi":     {188, "16777216 counts do not fit before the footer"},
		"empty-file.dcpi":     {0, `no "samples" line`},
		"footer-samples.dcpi": {244, "footer says 1 samples, chunks have 134"},
		"no-footer.dcpi":      {188, "0 bytes are too few for a footer"},
		"number-too-big.dcpi": {188, "4000000000 counts do not fit before the footer"},
		"overlap.dcpi":        {208, "chunk at offset 12 overlaps the one before, which ends at 13"},
		"trailing-junk.dcpi":  {244, "the last 12 bytes are neither a footer nor a chunk and a footer"},
		"two-events.dcpi":     {90, "header has a second event line, want exactly one"},
		"zero-number.dcpi":    {188, "chunk with no counts"},
	}
	files := testenv.Must(os.ReadDir("testdata/bad"))
	testenv.Within(t, "files", len(files), len(reasons), 100)
	for _, f := range files {
		want, ok := reasons[f.Name()]
		if !ok {
			t.Errorf("%s: no reason known", f.Name())
			continue
		}
		name := filepath.Join("testdata/bad", f.Name())
		err := testenv.Err(ReadFile(name, Options{}))
		testenv.Fails(t, name, err, fmt.Sprintf("%s: at byte %d: ", name, want.offset))
		testenv.Fails(t, name, err, want.reason)
	}
}

func TestHeaderValues(t *testing.T) {
	p := testenv.Must(ReadFile("testdata/2-unknown-lines.dcpi", Options{}))
	samples, _ := p.Value("samples")
	got := fmt.Sprintf("%#x %d %d %d %d %q %q %v", p.TextStart(), p.TextSize(), p.Period(), p.CPUSpeed(), p.Unit(), p.ImageName(), samples, testenv.Must(p.Epoch()))
	testenv.Same(t, "values", got, `0x120000000 8388608 63488 333 4 "x emacs" "not the terminator" 1997-03-28 08:14:00 +0000 UTC`)
}

func TestFlush(t *testing.T) {
	db := t.TempDir()
	want := filepath.Join(db, "2611210334", "devbox", "server.20261121033416a1b2c3.cpu_ns")
	p := testenv.Must(ReadFile("testdata/1-go-sparse.dcpi", Options{}))
	file := testenv.Must(p.Flush(db))
	testenv.Same(t, "file", file, want)
	testenv.Same(t, "the first flush", string(read(t, file)), string(read(t, "testdata/1-go-sparse.dcpi")))

	// Another tool adds a line of its own; it and what was there stay.
	old := testenv.Must(ReadFile(file, Options{}))
	old.Lines = slices.Insert(old.Lines, 1, "label\tbaseline")
	old.Terminator = ""
	testenv.OK(t, old.WriteFile(file))
	testenv.Must(p.Flush(db))
	got := testenv.Must(ReadFile(file, Options{}))
	testenv.NoDiff(t, "lines", cmp.Diff(old.Lines, got.Lines))
	var doubled []addrCount
	for c := range p.Counts() {
		doubled = append(doubled, addrCount{c.Addr, 2 * c.Count})
	}
	testenv.NoDiff(t, "counts", cmp.Diff(doubled, slices.Collect(got.Counts())))
	testenv.Same(t, "files left behind", len(testenv.Must(filepath.Glob(filepath.Join(filepath.Dir(file), ".*")))), 0)
}

func TestFlushAtTheSameTimeLosesNothing(t *testing.T) {
	db := t.TempDir()
	var wg sync.WaitGroup
	const n = 20
	for range n {
		wg.Go(func() {
			p := &Profile{Header: header()}
			testenv.Must(0, p.Add(slices.Values([]addrCount{{0x401000, 3}})))
			testenv.Must(p.Flush(db))
		})
	}
	wg.Wait()
	h := header()
	_, got := testenv.Must(ReadFile(filepath.Join(db, h.Path()), Options{})).Total()
	testenv.Same(t, "samples", got, 3*n)
}

func TestFlushLeavesWhatItCannotAddTo(t *testing.T) {
	for name, old := range map[string][]byte{
		"broken":       []byte("not a profile"),
		"other period": func() []byte { p := &Profile{Header: header("event cycles", "period 5")}; return write(t, p) }(),
	} {
		db := t.TempDir()
		p := &Profile{Header: header("event cycles")}
		file := filepath.Join(db, p.Path())
		testenv.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testenv.OK(t, os.WriteFile(file, old, 0o644))
		testenv.Fails(t, name, testenv.Err(p.Flush(db)), file)
		testenv.Same(t, name, string(read(t, file)), string(old))
	}
}

func TestPathStaysInTheDatabase(t *testing.T) {
	for _, tt := range [][2]string{
		{"platform ..", "2611210334/_../20261121033416a1b2c3.20261121033416a1b2c3.cpu_ns"},
		{"platform a/../../b", "2611210334/a_.._.._b/20261121033416a1b2c3.20261121033416a1b2c3.cpu_ns"},
		{"event ../../x", "2611210334/devbox/20261121033416a1b2c3.20261121033416a1b2c3..._.._x"},
		{"path /..", "2611210334/devbox/...20261121033416a1b2c3.cpu_ns"},
		{"path /", "2611210334/devbox/20261121033416a1b2c3.20261121033416a1b2c3.cpu_ns"},
	} {
		h := header(tt[0])
		testenv.Same(t, tt[0], filepath.ToSlash(h.Path()), tt[1])
	}
}

func TestSniff(t *testing.T) {
	for name, want := range map[string]bool{
		"testdata/1-go-sparse.dcpi":      true,
		"testdata/2-unknown-lines.dcpi":  true,
		"testdata/bad/two-events.dcpi":   true,
		"testdata/bad/empty-file.dcpi":   false,
		"testdata/1-go-sparse.cat":       false,
		"testdata/1-go-sparse.spec.json": false,
		"golden_test.go":                 false,
	} {
		testenv.Same(t, name, Sniff(read(t, name)), want)
	}
	// The end of a long header may be farther away than one looks.
	h := header("note " + strings.Repeat("x", 5000))
	testenv.Same(t, "a long header", Sniff(h.append(nil)[:sniffSize]), true)
}

func TestReadDatabase(t *testing.T) {
	db := t.TempDir()
	testenv.Same(t, "an empty directory is a database", IsDatabase(db), false)
	testenv.Fails(t, "", testenv.Err(ReadDatabase(db, Options{})), "no DCPI profile")
	for _, event := range []string{"event cpu_ns", "event wall_ns"} {
		testenv.Must((&Profile{Header: header(event)}).Flush(db))
	}
	testenv.Same(t, "a database", IsDatabase(db), true)
	for _, other := range []string{"README", ".dcpi-123", "2611210334/devbox/a/b"} {
		file := filepath.Join(db, other)
		testenv.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testenv.OK(t, os.WriteFile(file, read(t, "testdata/bad/overlap.dcpi"), 0o644))
	}
	testenv.OK(t, os.WriteFile(filepath.Join(db, "README"), []byte("not a profile\n"), 0o644))
	testenv.Same(t, "profiles", len(testenv.Must(ReadDatabase(db, Options{}))), 2)
	broken := filepath.Join(db, "2611210334", "devbox", "broken")
	testenv.OK(t, os.WriteFile(broken, read(t, "testdata/bad/overlap.dcpi"), 0o644))
	testenv.Fails(t, "", testenv.Err(ReadDatabase(db, Options{})), broken)
}
