package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	return testenv.Must(openCursor(testenv.Must(openFolder(dir)), "to", "to"))
}

// A cursor remembers what was written, whatever became of its last line, and stays small however many files there were.
func TestCursor(t *testing.T) {
	dir := t.TempDir()
	c := reopen(t, dir)
	testenv.Is(t, "a second cursor", testenv.Err(openCursor(c.dir, "to", "to")), ErrInUse)
	must(testenv.Must(openCursor(c.dir, "elsewhere", "elsewhere")).close())
	for n := range 5000 {
		e, id := testEntry(n)
		must(c.write(fact(e, id, stateSent)))
		c.keep([]entry{e})
	}
	must(c.write(batchLine([]ID{{7}, {8}})))
	testenv.Is(t, "a second cursor after the file was replaced", testenv.Err(openCursor(c.dir, "to", "to")), ErrInUse)
	path := filepath.Join(dir, c.name)
	b := testenv.Must(os.ReadFile(path))
	testenv.Within(t, "lines of the file", bytes.Count(b, []byte("\n")), 0, 1100)
	must(c.close())
	last, id := testEntry(4999)
	torn := append(b[:len(b):len(b)], `{"name":"x.tach","size":1,"mod":1,"id":"0102`...)
	for _, content := range [][]byte{b, torn} {
		must(os.WriteFile(path, content, 0o600))
		c := reopen(t, dir)
		testenv.FailIf(t, !c.done(last) || c.ids[id] == nil || len(c.batch) != 2 || c.known["x.tach"] != nil, "not known any more: %+v", c)
		changed := last
		changed.size++
		testenv.FailIf(t, c.done(changed), "a file that has changed is done")
		e, id := testEntry(9)
		must(c.write(fact(e, id, stateRefused)))
		c.close()
		c = reopen(t, dir)
		testenv.FailIf(t, c.known[e.name] == nil || c.known[e.name].state != stateRefused || !c.done(last), "what was written after that is not known: %+v", c)
		c.close()
	}
	// What could not be written, as on a full disk, is written when there is room again.
	c = reopen(t, dir)
	must(c.f.Close())
	must(os.MkdirAll(path+".new/x", 0o700))
	lost, lostID := testEntry(6000)
	err := c.write(fact(lost, lostID, stateSent))
	testenv.FailIf(t, err == nil, "a line was written to a closed file")
	must(os.RemoveAll(path + ".new"))
	c.f = testenv.Must(os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0))
	next, nextID := testEntry(6001)
	must(c.write(fact(next, nextID, stateSent)))
	must(c.close())
	c = reopen(t, dir)
	testenv.FailIf(t, !c.done(lost) || !c.done(next) || !c.done(last), "what could not be written is not known")
	must(c.close())
	testenv.SameList(t, "left", testenv.Must(filepath.Glob(filepath.Join(dir, "*.new"))), nil)
}

// A file has one id: as the program left it when it was killed, and after recovery. Other files have others.
func TestFileID(t *testing.T) {
	dir := t.TempDir()
	p := process{pid: 7, program: "shop"}
	p.file(t, filepath.Join(dir, "a.1.tach"), 1, true)
	p.file(t, filepath.Join(dir, "a.2.tach"), 2, false)
	process{pid: 8, program: "shop"}.file(t, filepath.Join(dir, "b.1.tach"), 1, true)
	copyFile(filepath.Join(dir, "a.1.tach"), filepath.Join(dir, "copy.tach"))
	d := testenv.Closes(t, testenv.Must(openFolder(dir)))
	open := func(name string) *File { return testenv.Must(openFile(d, name)) }
	a, b, killed, other := open("a.1.tach"), open("copy.tach"), open("a.2.tach"), open("b.1.tach")
	testenv.FailIf(t, a.ID != b.ID || a.ID == killed.ID || a.ID == other.ID || a.ID == (ID{}), "ids %v, of the copy %v, of other files %v %v", a.ID, b.ID, killed.ID, other.ID)
	testenv.FailIf(t, a.ID.Part("1") == a.ID.Part("2") || a.ID.Part("1") == a.ID, "parts do not have ids of their own")
	testenv.FailIf(t, a.Service != "shop" || a.Version != "v1.4.2" || a.Host != "web-1" || a.PID != 7 || a.End.Sub(a.Start).Seconds() != 1 || a.Samples == 0, "%+v", a)
	testenv.Must(recovery.Finish(filepath.Join(dir, "a.2.tach")))
	testenv.Same(t, "the id of the recovered file", open("a.2.tach").ID, killed.ID)
	x, y, z := &Batch{Files: []*File{a, other}}, &Batch{Files: []*File{a, other}}, &Batch{Files: []*File{a}}
	testenv.FailIf(t, x.ID() != y.ID() || x.ID() == z.ID() || x.without(other).ID() != z.ID(), "a batch's id is not that of its files")
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

// A batcher is a target that takes several files at once. It notes the batches that it was given.
type batcher struct {
	limits Limits
	send   func(b *Batch) error // may be nil
	tried  []string             // names of the files of each batch
	taken  []string
	ids    []ID
}

// Limits implements Target.
func (t *batcher) Limits() Limits { return t.limits }

// Close implements Target.
func (t *batcher) Close() error { return nil }

// Send implements Target.
func (t *batcher) Send(_ context.Context, b *Batch) error {
	var names []string
	for _, f := range b.Files {
		names = append(names, strings.TrimSuffix(f.Name, ".tach"))
	}
	t.tried, t.ids = append(t.tried, strings.Join(names, " ")), append(t.ids, b.ID())
	if t.send != nil {
		if err := t.send(b); err != nil {
			return err
		}
	}
	t.taken = append(t.taken, names...)
	return nil
}

// numbered writes files 1, 2 and so on, in this order.
func numbered(t *testing.T, n int) (dir string) {
	dir = t.TempDir()
	for i := 1; i <= n; i++ {
		write(t, dir, i, time.Unix(1_800_000_000+int64(i), 0))
	}
	return dir
}

func write(t *testing.T, dir string, n int, at time.Time) {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprint(n, extension))
	process{pid: n, program: "shop"}.file(t, path, 1, true)
	must(os.Chtimes(path, at, at))
}

// Batches have as many files as the target wants. If it does not want them together, they come in smaller ones, and only
// what is refused alone is parked.
func TestBatches(t *testing.T) {
	dir := numbered(t, 1)
	d := testenv.Closes(t, testenv.Must(openFolder(dir)))
	f := testenv.Must(openFile(d, "1.tach"))
	has := func(b *Batch, name string) *File {
		if i := slices.IndexFunc(b.Files, func(f *File) bool { return f.Name == name+extension }); i >= 0 {
			return b.Files[i]
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		limits Limits
		send   func(dir string, b *Batch) error
		tried  []string
		parked string
		gone   int64
	}{
		{name: "alone", tried: []string{"1", "2", "3", "4", "5"}},
		{name: "together", limits: Limits{Files: 3}, tried: []string{"1 2 3", "4 5"}},
		{name: "bytes", limits: Limits{Files: 9, Bytes: 2*f.Size + f.Size/2}, tried: []string{"1 2", "3 4", "5"}},
		{name: "too large for the limit", limits: Limits{Files: 9, Bytes: 1}, tried: []string{"1", "2", "3", "4", "5"}},
		{name: "too large", limits: Limits{Files: 9}, send: func(_ string, b *Batch) error {
			if len(b.Files) > 2 {
				return &TooLargeError{errors.New("more than two")}
			}
			return nil
		}, tried: []string{"1 2 3 4 5", "1 2 3", "1 2", "3", "4 5"}},
		{name: "one refused", limits: Limits{Files: 9}, send: func(_ string, b *Batch) error {
			if has(b, "2") != nil {
				return &RefusedError{errors.New("no 2")}
			}
			return nil
		}, tried: []string{"1 2 3 4 5", "1", "2 3 4 5", "2", "3 4 5"}, parked: "2"},
		{name: "damaged", limits: Limits{Files: 9}, send: func(dir string, b *Batch) error {
			f := has(b, "3")
			if f == nil {
				return nil
			}
			path := filepath.Join(dir, f.Name)
			content := testenv.Must(os.ReadFile(path))
			clear(content[100:200])
			must(os.WriteFile(path, content, 0o600))
			return f.Read(stream.Options{}, all)
		}, tried: []string{"1 2 3 4 5", "1 2 4 5"}, parked: "3"},
		{name: "gone", limits: Limits{Files: 9}, send: func(dir string, b *Batch) error {
			f := has(b, "5")
			if f == nil {
				return nil
			}
			must(os.Remove(filepath.Join(dir, f.Name)))
			return f.Read(stream.Options{}, nil)
		}, tried: []string{"1 2 3 4 5", "1 2 3 4"}, gone: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := numbered(t, 5)
			target, m := &batcher{limits: c.limits}, NewMetrics()
			if c.send != nil {
				target.send = func(b *Batch) error { return c.send(dir, b) }
			}
			must(push(t, Options{Dir: dir, Target: target, Name: "x", Once: true, Metrics: m}))
			testenv.Same(t, "files that were deleted before", m.Files("vanished"), c.gone)
			testenv.SameList(t, "batches", target.tried, c.tried)
			var parked []string
			for _, name := range testenv.Must(filepath.Glob(filepath.Join(dir, refusedDir, "*"+extension))) {
				parked = append(parked, strings.TrimSuffix(filepath.Base(name), extension))
			}
			testenv.Same(t, "parked", strings.Join(parked, " "), c.parked)
		})
	}
}

// killed pushes until the process is killed while it sends a batch. From many goroutines on a file is large.
func killed(t *testing.T, dir string, target *batcher, many uint32) {
	t.Helper()
	p := testenv.Must(New(Options{Dir: dir, Target: target, Name: "x", Once: true}))
	defer p.cursor.f.Close()
	defer func() { testenv.FailIf(t, recover() == nil, "the process was not killed") }()
	p.many = many
	_ = p.Run(t.Context())
}

// A batch of several files that the process before this one was sending comes again as it was, whatever else there is to send by
// now. So a target that names its output by the batch's id writes nothing twice.
func TestBatchAgain(t *testing.T) {
	dir := numbered(t, 5)
	first := &batcher{limits: Limits{Files: 3}, send: func(*Batch) error { panic("killed") }}
	killed(t, dir, first, manyGoroutines)
	for n, second := range map[int]int64{0: 0, 9: 900} { // an older one and a younger one
		write(t, dir, n, time.Unix(1_800_000_000+second, 0))
	}
	second, third := &batcher{limits: Limits{Files: 4}}, &batcher{limits: Limits{Files: 4}}
	for _, target := range []*batcher{second, third} {
		must(push(t, Options{Dir: dir, Target: target, Name: "x", Once: true}))
	}
	testenv.SameList(t, "batches", second.tried, []string{"1 2 3", "0 4 5 9"})
	testenv.Same(t, "the id of the first batch", second.ids[0], first.ids[0])
	testenv.SameList(t, "sent again", third.tried, nil)
}

// A large file at which the process ended, perhaps since there was too little memory, does not keep the next one from sending the others.
func TestLargeFile(t *testing.T) {
	dir := numbered(t, 3)
	target := &batcher{send: func(b *Batch) error {
		if b.Files[0].Name == "1.tach" {
			panic("killed")
		}
		return nil
	}}
	killed(t, dir, target, 1)
	killed(t, dir, target, 1)
	target.send = nil
	must(push(t, Options{Dir: dir, Target: target, Name: "x", Once: true}))
	testenv.SameList(t, "tried", target.tried, []string{"1", "2", "3", "1", "1"})
}
