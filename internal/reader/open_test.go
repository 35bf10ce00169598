package reader_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// TestClose closes the Reader during iterations and uses its strings afterwards.
func TestClose(t *testing.T) {
	r := open(t, filepath.Join(testdata, "cpython-3.15", "big.zstd.bin"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			n := 0
			for _, err := range r.Samples() {
				if n++; err != nil && !errors.Is(err, os.ErrClosed) {
					t.Errorf("after %d samples: %v", n, err)
				}
			}
		})
	}
	runtime.Gosched()
	for range 2 {
		testenv.OK(t, r.Close())
	}
	wg.Wait()
	testenv.Is(t, "Samples after Close", testenv.Err(collect(r)), os.ErrClosed)
	names := 0
	for _, f := range r.Frames() {
		names += strings.Count(f.File, ".go")
	}
	if names < 1000 {
		t.Errorf("%d names", names)
	}
}

// TestBreak ends an iteration early and starts another one.
func TestBreak(t *testing.T) {
	r := open(t, filepath.Join(testdata, "document-v2", "rle.zstd.bin"))
	all := testenv.Must(collect(r))
	for stop := range 50 {
		n := 0
		for s := range testenv.All(t, r.Samples()) {
			if n == stop {
				break
			}
			if w := all[n]; s.Thread != w.Thread || s.Time != w.Time || s.Status != w.Status || !slices.Equal(s.Stack, w.Stack) {
				t.Fatalf("sample %d before a break at %d is %+v, want %+v", n, stop, s, w)
			}
			n++
		}
		testenv.Same(t, "samples", n, stop)
	}
}

// TestTruncatedWhileOpen truncates a file while it is being read. The Reader returns an
// error; a fault in a mapping must not kill the process.
func TestTruncatedWhileOpen(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata, "document-v2", "big.zstd.bin"))
	testenv.OK(t, err)
	path := filepath.Join(t.TempDir(), "cut.tach")
	testenv.OK(t, os.WriteFile(path, b, 0o600))
	r := open(t, path)
	n := 0
	for _, err = range r.Samples() {
		if err != nil {
			break
		}
		if n++; n == 10 {
			testenv.OK(t, os.Truncate(path, 4096))
		}
	}
	var format *reader.FormatError
	if !errors.As(err, &format) || format.File != path {
		t.Fatalf("after %d samples of %d: error %v", n, r.Header().Samples, err)
	}
	if _, err := r.Metadata(); err != nil {
		t.Error(err) // the metadata are in memory
	}
}

// TestManyThreads reads samples of thousands of threads in random order, with different
// thread or interpreter ids, so that each is found by its ids in the hash table.
func TestManyThreads(t *testing.T) {
	const threads, samples = 5000, 50_000
	b := builder{samples: samples, strings: []string{""}}
	for i := range 100 {
		b.frames = append(b.frames, [3]int64{0, 0, int64(i)})
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	last := map[uint64]tachyon.Sample{}
	var want []tachyon.Sample
	for range samples {
		n := rnd.Uint64N(threads)
		s, ok := last[n]
		if !ok {
			s = tachyon.Sample{Thread: n / 4 << 40, Interpreter: uint32(n % 4), Status: 1, Time: 1000}
		}
		delta, pop, push := rnd.Uint64N(1<<rnd.UintN(64)), rnd.IntN(len(s.Stack)+1), rnd.IntN(8)
		numbers, stack := []uint64{delta, 1, uint64(pop), uint64(push)}, []uint32{}
		for range push {
			stack = append(stack, rnd.Uint32N(100))
			numbers = append(numbers, uint64(stack[len(stack)-1]))
		}
		s.Time, s.Stack = s.Time+delta, append(stack, s.Stack[pop:]...)
		b.record(s.Thread, s.Interpreter, wire.PopPush, numbers...)
		last[n], want = s, append(want, s)
	}
	b.threads = uint32(len(last))
	testenv.NoDiff(t, "samples", cmp.Diff(want, testenv.Must(collect(openBytes(t, b.bytes()))), cmp.EquateEmpty()))
}

// TestCompact checks that the tables of a file are read again after Compact, also while others read it.
func TestCompact(t *testing.T) {
	r := open(t, filepath.Join(testdata, "document-v2", "tiny.bin"))
	frames := slices.Clone(r.Frames())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				r.Compact()
				testenv.SameList(t, "frames", r.Frames(), frames)
				n := uint64(0)
				for _, err := range r.Samples() {
					if err != nil {
						t.Error(err)
					}
					n++
				}
				testenv.Same(t, "samples", n, r.Header().Samples)
			}
		})
	}
	group.Wait()
	r.Compact()
	r.Close()
	testenv.Same(t, "frames of a closed file", len(r.Frames()), 0)
}

// Batches have the samples and the errors of Samples, for good files and bad ones, up to a time that is too late.
func TestBatches(t *testing.T) {
	files := 0
	for _, path := range slices.Concat(goldens(t, "document-v2"), goldens(t, "cpython-3.15"), goldens(t, "bad")) {
		r, err := reader.Open(path)
		if err != nil || r.Header().Samples == 200_000 { // big
			continue
		}
		compareBatches(t, path, r)
		r.Close()
		files++
	}
	if files < 50 {
		t.Errorf("only %d files", files)
	}
}

func compareBatches(t *testing.T, name string, r *reader.Reader) {
	t.Helper()
	want, wantErr := collect(r)
	var gotErr error
	var threads []reader.Thread
	last := map[uint32]uint64{}
	n, used := 0, &reader.Batch{}
	for b, err := range r.Batches(func() *reader.Batch { return used }, tachyon.MaxTime) {
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
	if n < len(want) && want[n].Time > tachyon.MaxTime { // Samples yields all times
		check(t, gotErr, name, "a sample's time of ")
		return
	}
	if n != len(want) || (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Errorf("%s: %d samples and error %v, want %d and %v", name, n, gotErr, len(want), wantErr)
	}
}

// An iteration over batches that is broken off leaves nothing behind, and others may run beside it.
func TestBatchesBreak(t *testing.T) {
	r := open(t, filepath.Join(testdata, "document-v2", "big.zstd.bin"))
	for b, err := range r.Batches(nil, tachyon.MaxTime) {
		if err != nil || len(b.Samples) == 0 {
			t.Fatal(err)
		}
		samples := 0
		for b := range testenv.All(t, r.Batches(nil, tachyon.MaxTime)) {
			samples += len(b.Samples)
		}
		testenv.Same(t, "samples", samples, 200_000)
		break
	}
}
