package push

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

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
	d := testenv.Must(openFolder(dir))
	defer d.Close()
	f := testenv.Must(openFile(d, "1.tach"))
	has := func(b *Batch, name string) *File {
		for _, f := range b.Files {
			if f.Name == name+extension {
				return f
			}
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
			if !slices.Equal(target.tried, c.tried) {
				t.Errorf("batches %q, want %q", target.tried, c.tried)
			}
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
	defer func() {
		if recover() == nil {
			t.Error("the process was not killed")
		}
	}()
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
	if want := []string{"1 2 3", "0 4 5 9"}; !slices.Equal(second.tried, want) || second.ids[0] != first.ids[0] {
		t.Errorf("batches %q, want %q; ids %v and %v", second.tried, want, first.ids, second.ids)
	}
	if len(third.tried) > 0 {
		t.Errorf("sent again: %q", third.tried)
	}
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
	if want := []string{"1", "2", "3", "1"}; !slices.Equal(target.tried, want) {
		t.Errorf("tried %q, want %q", target.tried, want)
	}
	target.send = nil
	if err := push(t, Options{Dir: dir, Target: target, Name: "x", Once: true}); err != nil || !slices.Equal(target.tried[4:], []string{"1"}) {
		t.Errorf("%v; left is %q, want 1", err, target.tried[4:])
	}
}
