package dcpi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

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
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
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
	p := testenv.Must(ReadFile(filepath.Join(db, h.Path()), Options{}))
	_, got := p.Total()
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
		"db_test.go":                     false,
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
		p := &Profile{Header: header(event)}
		testenv.Must(p.Flush(db))
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
