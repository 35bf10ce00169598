package reader_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// Batches have the samples and the errors of Samples, for good files and bad ones.
func TestBatches(t *testing.T) {
	files := 0
	for _, pattern := range []string{"document-v2/*.bin", "cpython-3.15/*.bin", "bad/*.bin"} {
		paths, err := filepath.Glob(filepath.Join(testdata, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if fi, err := os.Stat(path); err != nil || fi.Size() > 2<<20 {
				continue
			}
			r, err := reader.Open(path)
			if err != nil {
				continue
			}
			compareBatches(t, filepath.Base(path), r)
			r.Close()
			files++
		}
	}
	if files < 50 {
		t.Errorf("only %d files", files)
	}
}

func compareBatches(t *testing.T, name string, r *reader.Reader) {
	t.Helper()
	var want []tachyon.Sample
	var wantErr, gotErr error
	for s, err := range r.Samples() {
		if err != nil {
			wantErr = err
			break
		}
		c := *s
		c.Stack = slices.Clone(s.Stack)
		want = append(want, c)
	}
	var threads []reader.Thread
	last := map[uint32]uint64{}
	n, used := 0, &reader.Batch{}
	for b, err := range r.Batches(func() *reader.Batch { return used }) {
		if err != nil {
			gotErr = err
			break
		}
		threads = append(threads, b.Threads...)
		for _, s := range b.Samples {
			if n == len(want) {
				t.Fatalf("%s: more than %d samples", name, n)
			}
			w := &want[n]
			n++
			var stack []uint32
			for at := s.Stack; at != 0; at = b.Stacks[at].Caller {
				stack = append(stack, b.Stacks[at].Frame)
			}
			before, seen := last[s.Thread]
			if !seen {
				before = r.Header().Start
			}
			last[s.Thread] = s.Time
			if th := threads[s.Thread]; th.ID != w.Thread || th.Interpreter != w.Interpreter || s.Time != w.Time || s.Status != w.Status ||
				!slices.Equal(stack, w.Stack) || s.First == seen || s.Time-before != s.Since || int(b.Stacks[s.Stack].Depth) != len(stack) {
				t.Fatalf("%s: sample %d is %+v of %+v with stack %v, want %+v", name, n, s, th, stack, w)
			}
		}
	}
	if n != len(want) || (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Errorf("%s: %d samples and error %v, want %d and %v", name, n, gotErr, len(want), wantErr)
	}
}

// An iteration over batches that is broken off leaves nothing behind, and others may run beside it.
func TestBatchesBreak(t *testing.T) {
	r, err := reader.Open(filepath.Join(testdata, "document-v2", "big.zstd.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 3 {
		for b, err := range r.Batches(nil) {
			if err != nil || len(b.Samples) == 0 {
				t.Fatal(err)
			}
			samples := 0
			for b, err := range r.Batches(nil) {
				if err != nil {
					t.Fatal(err)
				}
				samples += len(b.Samples)
			}
			if samples != 200_000 {
				t.Errorf("%d samples", samples)
			}
			break
		}
	}
}
