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
		path := filepath.Join(dir, fmt.Sprint(i, extension))
		process{pid: i, program: "shop"}.file(t, path, 1, true)
		at := time.Unix(1_800_000_000+int64(i), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Batches have as many files as the target wants. If it does not want them together, they come in smaller ones, and only
// what is refused alone is parked.
func TestBatches(t *testing.T) {
	dir := numbered(t, 1)
	f, err := openFile(dir, "1.tach")
	if err != nil {
		t.Fatal(err)
	}
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
			content, err := os.ReadFile(f.Path)
			if err != nil {
				return err
			}
			clear(content[100:200])
			if err := os.WriteFile(f.Path, content, 0o600); err != nil {
				return err
			}
			return f.Read(stream.Options{}, func(src *stream.Source) error {
				for _, err := range src.Samples() {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}, tried: []string{"1 2 3 4 5", "1 2 4 5"}, parked: "3"},
		{name: "gone", limits: Limits{Files: 9}, send: func(_ string, b *Batch) error {
			f := has(b, "5")
			if f == nil {
				return nil
			}
			if err := os.Remove(f.Path); err != nil {
				return err
			}
			return f.Read(stream.Options{}, nil)
		}, tried: []string{"1 2 3 4 5", "1 2 3 4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := numbered(t, 5)
			target := &batcher{limits: c.limits}
			if c.send != nil {
				target.send = func(b *Batch) error { return c.send(dir, b) }
			}
			if err := push(t, Options{Dir: dir, Target: target, Name: "x", Once: true}); err != nil {
				t.Error(err)
			}
			if !slices.Equal(target.tried, c.tried) {
				t.Errorf("batches %q, want %q", target.tried, c.tried)
			}
			var parked []string
			entries, _, err := list(filepath.Join(dir, refusedDir))
			for _, e := range entries {
				parked = append(parked, strings.TrimSuffix(e.name, extension))
			}
			if strings.Join(parked, " ") != c.parked || err != nil && c.parked != "" {
				t.Errorf("parked %q (%v), want %q", parked, err, c.parked)
			}
		})
	}
}

// A batch of several files that the process before this one was sending comes again as it was, whatever else there is to send by
// now. So a target that names its output by the batch's id writes nothing twice.
func TestBatchAgain(t *testing.T) {
	dir := numbered(t, 5)
	first := &batcher{limits: Limits{Files: 3}, send: func(*Batch) error { panic("killed") }}
	func() {
		p, err := New(Options{Dir: dir, Target: first, Name: "x", Once: true})
		if err != nil {
			t.Fatal(err)
		}
		defer p.cursor.f.Close()
		defer func() { _ = recover() }()
		_ = p.Run(t.Context())
	}()
	for _, e := range []string{"0", "9"} { // an older one and a younger one
		process{pid: 50 + int(e[0]), program: "shop"}.file(t, filepath.Join(dir, e+extension), 1, true)
		at := time.Unix(1_800_000_000+100*int64(e[0]-'0'), 0)
		if err := os.Chtimes(filepath.Join(dir, e+extension), at, at); err != nil {
			t.Fatal(err)
		}
	}
	second := &batcher{limits: Limits{Files: 4}}
	if err := push(t, Options{Dir: dir, Target: second, Name: "x", Once: true}); err != nil {
		t.Error(err)
	}
	if want := []string{"1 2 3", "0 4 5 9"}; !slices.Equal(second.tried, want) || second.ids[0] != first.ids[0] {
		t.Errorf("batches %q, want %q; ids %v and %v", second.tried, want, first.ids, second.ids)
	}
	third := &batcher{limits: Limits{Files: 4}}
	if err := push(t, Options{Dir: dir, Target: third, Name: "x", Once: true}); err != nil || len(third.tried) > 0 {
		t.Errorf("%v; sent again: %q", err, third.tried)
	}
}

// A large file at which the process ended, perhaps since there was too little memory, does not keep the next one from sending the others.
func TestLargeFile(t *testing.T) {
	dir := numbered(t, 3)
	for range 2 {
		target := &batcher{send: func(b *Batch) error {
			if b.Files[0].Name == "1.tach" {
				panic("killed")
			}
			return nil
		}}
		func() {
			p, err := New(Options{Dir: dir, Target: target, Name: "x", Once: true})
			if err != nil {
				t.Fatal(err)
			}
			defer p.cursor.f.Close()
			defer func() { _ = recover() }()
			p.many = 1
			_ = p.Run(t.Context())
		}()
	}
	target := &batcher{}
	if err := push(t, Options{Dir: dir, Target: target, Name: "x", Once: true}); err != nil || !slices.Equal(target.tried, []string{"1"}) {
		t.Errorf("%v; left is %q, want 1", err, target.tried)
	}
}
