package push

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func testEntry(n int) (entry, ID) {
	return entry{fmt.Sprintf("app.%d.tach", n), int64(n), time.Unix(1_800_000_000, int64(n))}, ID{1, byte(n >> 8), byte(n)}
}

func reopen(t *testing.T, dir string) *cursor {
	t.Helper()
	c, err := openCursor(dir, "to")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A cursor remembers what was written, whatever became of its last line, and stays small however many files there were.
func TestCursor(t *testing.T) {
	dir := t.TempDir()
	c := reopen(t, dir)
	if _, err := openCursor(dir, "to"); !errors.Is(err, ErrInUse) {
		t.Errorf("a second cursor: %v", err)
	}
	if other, err := openCursor(dir, "elsewhere"); err != nil {
		t.Error(err)
	} else {
		other.close()
	}
	for n := range 5000 {
		e, id := testEntry(n)
		if err := c.write(fact(e, id, stateSent)); err != nil {
			t.Fatal(err)
		}
		c.keep([]entry{e})
	}
	if err := c.write(batchLine([]ID{{7}, {8}})); err != nil {
		t.Fatal(err)
	}
	if _, err := openCursor(dir, "to"); !errors.Is(err, ErrInUse) {
		t.Errorf("a second cursor after the file was replaced: %v", err)
	}
	path := c.path
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > 1100 {
		t.Errorf("the file has %d lines", n)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	last, id := testEntry(4999)
	torn := append(b[:len(b):len(b)], `{"name":"x.tach","size":1,"mod":1,"id":"0102`...)
	for _, content := range [][]byte{b, torn} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c := reopen(t, dir)
		if !c.done(last) || c.ids[id] == nil || len(c.batch) != 2 || c.known["x.tach"] != nil {
			t.Errorf("not known any more: %+v", c)
		}
		changed := last
		changed.size++
		if c.done(changed) {
			t.Error("a file that has changed is done")
		}
		e, id := testEntry(9)
		if err := c.write(fact(e, id, stateRefused)); err != nil {
			t.Fatal(err)
		}
		c.close()
		if c = reopen(t, dir); c.known[e.name] == nil || c.known[e.name].state != stateRefused || !c.done(last) {
			t.Errorf("what was written after that is not known: %+v", c)
		}
		c.close()
	}
	if extra, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(extra) > 0 {
		t.Error(extra)
	}
}
