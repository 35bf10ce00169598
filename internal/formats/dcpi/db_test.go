package dcpi

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func TestFlush(t *testing.T) {
	db := t.TempDir()
	want := filepath.Join(db, "2611210334", "devbox", "server.20261121033416a1b2c3.cpu_ns")
	p := testenv.Must(ReadFile("testdata/1-go-sparse.dcpi", Options{}))
	file, err := p.Flush(db)
	if err != nil || file != want {
		t.Fatalf("flushed to %s, %v, want %s", file, err, want)
	}
	if !bytes.Equal(read(t, file), read(t, "testdata/1-go-sparse.dcpi")) {
		t.Error("the first flush changed the profile")
	}

	// Another tool adds a line of its own; it and what was there stay.
	old := testenv.Must(ReadFile(file, Options{}))
	old.Lines = slices.Insert(old.Lines, 1, "label\tbaseline")
	old.Terminator = ""
	testenv.OK(t, old.WriteFile(file))
	testenv.Must(p.Flush(db))
	got := testenv.Must(ReadFile(file, Options{}))
	if !slices.Equal(got.Lines, old.Lines) {
		t.Errorf("lines are %q, want %q", got.Lines, old.Lines)
	}
	var doubled []addrCount
	for c := range p.Counts() {
		doubled = append(doubled, addrCount{c.Addr, 2 * c.Count})
	}
	if !slices.Equal(slices.Collect(got.Counts()), doubled) {
		t.Errorf("counts are %v, want %v", slices.Collect(got.Counts()), doubled)
	}
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
			if err := p.Add(slices.Values([]addrCount{{0x401000, 3}})); err != nil {
				t.Error(err)
			}
			if _, err := p.Flush(db); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h := header()
	p := testenv.Must(ReadFile(filepath.Join(db, h.Path()), Options{}))
	if _, got := p.Total(); got != 3*n {
		t.Errorf("%d samples, want %d", got, 3*n)
	}
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
		if !bytes.Equal(read(t, file), old) {
			t.Error("the file was changed")
		}
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
		if got := filepath.ToSlash(h.Path()); got != tt[1] {
			t.Errorf("%s: path is %s, want %s", tt[0], got, tt[1])
		}
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
		if got := Sniff(read(t, name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	// The end of a long header may be farther away than one looks.
	h := header("note " + strings.Repeat("x", 5000))
	if !Sniff(h.append(nil)[:sniffSize]) {
		t.Error("a long header is not known")
	}
}

func TestReadDatabase(t *testing.T) {
	db := t.TempDir()
	if IsDatabase(db) {
		t.Error("an empty directory is a database")
	}
	testenv.Fails(t, "", testenv.Err(ReadDatabase(db, Options{})), "no DCPI profile")
	for _, event := range []string{"event cpu_ns", "event wall_ns"} {
		p := &Profile{Header: header(event)}
		testenv.Must(p.Flush(db))
	}
	if !IsDatabase(db) {
		t.Error("the directory is no database")
	}
	for _, other := range []string{"README", ".dcpi-123", "2611210334/devbox/a/b"} {
		file := filepath.Join(db, other)
		testenv.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testenv.OK(t, os.WriteFile(file, read(t, "testdata/bad/overlap.dcpi"), 0o644))
	}
	testenv.OK(t, os.WriteFile(filepath.Join(db, "README"), []byte("not a profile\n"), 0o644))
	ps, err := ReadDatabase(db, Options{})
	if err != nil || len(ps) != 2 {
		t.Fatalf("%d profiles, %v", len(ps), err)
	}
	broken := filepath.Join(db, "2611210334", "devbox", "broken")
	testenv.OK(t, os.WriteFile(broken, read(t, "testdata/bad/overlap.dcpi"), 0o644))
	testenv.Fails(t, "", testenv.Err(ReadDatabase(db, Options{})), broken)
}
