package push

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

func testEntry(n int) (entry, ID) {
	return entry{fmt.Sprintf("app.%d.tach", n), int64(n), time.Unix(1_800_000_000, int64(n))}, ID{1, byte(n >> 8), byte(n)}
}

func reopen(t *testing.T, dir string) *cursor {
	t.Helper()
	return testenv.Must(openCursor(testenv.Must(openFolder(dir)), "to", "to"))
}

// A cursor remembers what was written, whatever became of its last line, and stays small however many files there were.
func TestCursor(t *testing.T) {
	dir := t.TempDir()
	c := reopen(t, dir)
	if _, err := openCursor(c.dir, "to", "to"); !errors.Is(err, ErrInUse) {
		t.Errorf("a second cursor: %v", err)
	}
	if other, err := openCursor(c.dir, "elsewhere", "elsewhere"); err != nil {
		t.Error(err)
	} else {
		other.close()
	}
	for n := range 5000 {
		e, id := testEntry(n)
		must(c.write(fact(e, id, stateSent)))
		c.keep([]entry{e})
	}
	must(c.write(batchLine([]ID{{7}, {8}})))
	if _, err := openCursor(c.dir, "to", "to"); !errors.Is(err, ErrInUse) {
		t.Errorf("a second cursor after the file was replaced: %v", err)
	}
	path := filepath.Join(dir, c.name)
	b := testenv.Must(os.ReadFile(path))
	if n := strings.Count(string(b), "\n"); n > 1100 {
		t.Errorf("the file has %d lines", n)
	}
	must(c.close())
	last, id := testEntry(4999)
	torn := append(b[:len(b):len(b)], `{"name":"x.tach","size":1,"mod":1,"id":"0102`...)
	for _, content := range [][]byte{b, torn} {
		must(os.WriteFile(path, content, 0o600))
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
		must(c.write(fact(e, id, stateRefused)))
		c.close()
		if c = reopen(t, dir); c.known[e.name] == nil || c.known[e.name].state != stateRefused || !c.done(last) {
			t.Errorf("what was written after that is not known: %+v", c)
		}
		c.close()
	}
	// What could not be written, as on a full disk, is written when there is room again.
	c = reopen(t, dir)
	must(c.f.Close())
	must(os.MkdirAll(path+".new/x", 0o700))
	lost, lostID := testEntry(6000)
	if err := c.write(fact(lost, lostID, stateSent)); err == nil {
		t.Error("a line was written to a closed file")
	}
	must(os.RemoveAll(path + ".new"))
	c.f = testenv.Must(os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0))
	next, nextID := testEntry(6001)
	must(c.write(fact(next, nextID, stateSent)))
	must(c.close())
	c = reopen(t, dir)
	if !c.done(lost) || !c.done(next) || !c.done(last) {
		t.Error("what could not be written is not known")
	}
	must(c.close())
	if extra, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(extra) > 0 {
		t.Error(extra)
	}
}

// A file has one id: as the program left it when it was killed, and after recovery. Other files have others.
func TestFileID(t *testing.T) {
	dir := t.TempDir()
	p := process{pid: 7, program: "shop"}
	p.file(t, filepath.Join(dir, "a.1.tach"), 1, true)
	p.file(t, filepath.Join(dir, "a.2.tach"), 2, false)
	process{pid: 8, program: "shop"}.file(t, filepath.Join(dir, "b.1.tach"), 1, true)
	copyFile(filepath.Join(dir, "a.1.tach"), filepath.Join(dir, "copy.tach"))
	d := testenv.Must(openFolder(dir))
	defer d.Close()
	open := func(name string) *File {
		return testenv.Must(openFile(d, name))
	}
	a, b, killed, other := open("a.1.tach"), open("copy.tach"), open("a.2.tach"), open("b.1.tach")
	if a.ID != b.ID || a.ID == killed.ID || a.ID == other.ID || a.ID == (ID{}) {
		t.Errorf("ids %v, of the copy %v, of other files %v %v", a.ID, b.ID, killed.ID, other.ID)
	}
	if a.ID.Part("1") == a.ID.Part("2") || a.ID.Part("1") == a.ID {
		t.Error("parts do not have ids of their own")
	}
	if a.Service != "shop" || a.Version != "v1.4.2" || a.Host != "web-1" || a.PID != 7 || a.End.Sub(a.Start).Seconds() != 1 || a.Samples == 0 {
		t.Errorf("%+v", a)
	}
	if _, err := recovery.Finish(filepath.Join(dir, "a.2.tach")); err != nil {
		t.Fatal(err)
	}
	if again := open("a.2.tach"); again.ID != killed.ID {
		t.Errorf("id %v of the recovered file, %v before", again.ID, killed.ID)
	}
	x, y, z := &Batch{Files: []*File{a, other}}, &Batch{Files: []*File{a, other}}, &Batch{Files: []*File{a}}
	if x.ID() != y.ID() || x.ID() == z.ID() || x.without(other).ID() != z.ID() {
		t.Error("a batch's id is not that of its files")
	}
}

// all reads all samples.
func all(src *stream.Source) error {
	for _, err := range src.Samples() {
		if err != nil {
			return err
		}
	}
	return nil
}
