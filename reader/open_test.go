package reader_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// TestClose closes the Reader during iterations and uses its strings afterwards.
func TestClose(t *testing.T) {
	r, err := reader.Open(filepath.Join(testdata, "cpython-3.15", "big.zstd.bin"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if n, err := drain(r); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Errorf("after %d samples: %v", n, err)
			}
		})
	}
	runtime.Gosched()
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if _, err := drain(r); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Samples after Close: %v", err)
	}
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
	r, err := reader.Open(filepath.Join(testdata, "document-v2", "rle.zstd.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := collect(t, r)
	for stop := range 50 {
		var got []tachyon.Sample
		for s, err := range r.Samples() {
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == stop {
				break
			}
			c := *s
			c.Stack = slices.Clone(s.Stack)
			got = append(got, c)
		}
		if d := cmp.Diff(all[:stop], got, cmp.Transformer("nil", func(s []uint32) int { return len(s) })); stop > 0 && d != "" {
			t.Fatalf("up to %d: %s", stop, d)
		}
	}
}

// TestTruncatedWhileOpen truncates a file while it is being read. The Reader returns an
// error; a fault in a mapping must not kill the process.
func TestTruncatedWhileOpen(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata, "document-v2", "big.zstd.bin"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.tach")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for _, err = range r.Samples() {
		if err != nil {
			break
		}
		if n++; n == 10 {
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
		}
	}
	var format *reader.FormatError
	if !errors.As(err, &format) || format.File != path {
		t.Fatalf("after %d samples of %d: error %v", n, r.Header().Samples, err)
	}
	t.Log(err)
	if _, err := r.Metadata(); err != nil {
		t.Error(err) // the metadata are in memory
	}
}

// TestManyThreads reads samples of thousands of threads in random order, with different
// thread or interpreter ids, so that each is found by its ids in the hash table.
func TestManyThreads(t *testing.T) {
	const threads, samples = 20_000, 200_000
	b := builder{samples: samples, strings: []string{""}}
	for i := range 100 {
		b.frames = append(b.frames, [3]int64{0, 0, int64(i)})
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	type state struct {
		time  uint64
		stack []uint32
	}
	states := map[[2]uint64]*state{}
	var want []tachyon.Sample
	for range samples {
		n := rnd.Uint64N(threads)
		k := [2]uint64{n / 4 << 40, n % 4}
		s := states[k]
		if s == nil {
			s = &state{time: 1000}
			states[k] = s
		}
		delta := rnd.Uint64N(1 << rnd.UintN(64))
		s.time += delta
		pop := rnd.IntN(len(s.stack) + 1)
		push := rnd.IntN(8)
		numbers := []uint64{delta, 1, uint64(pop), uint64(push)}
		stack := []uint32{}
		for range push {
			f := rnd.Uint32N(100)
			stack = append(stack, f)
			numbers = append(numbers, uint64(f))
		}
		s.stack = append(stack, s.stack[pop:]...)
		b.record(k[0], uint32(k[1]), wire.PopPush, numbers...)
		want = append(want, tachyon.Sample{Thread: k[0], Interpreter: uint32(k[1]), Status: 1, Time: s.time, Stack: s.stack})
	}
	b.threads = uint32(len(states))
	r, err := reader.New(bytes.NewReader(b.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		if w := want[i]; s.Thread != w.Thread || s.Interpreter != w.Interpreter || s.Time != w.Time || s.Status != w.Status || !slices.Equal(s.Stack, w.Stack) {
			t.Fatalf("sample %d: %+v, want %+v", i, *s, w)
		}
		i++
	}
	if i != samples {
		t.Errorf("%d samples", i)
	}
}

// TestCompact checks that the tables of a file are read again after Compact, also while others read it.
func TestCompact(t *testing.T) {
	r, err := reader.Open(filepath.Join(testdata, "document-v2", "tiny.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	frames := slices.Clone(r.Frames())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				r.Compact()
				if got := r.Frames(); !slices.Equal(got, frames) {
					t.Errorf("frames %v, want %v", got, frames)
				}
				n := uint64(0)
				for _, err := range r.Samples() {
					if err != nil {
						t.Error(err)
					}
					n++
				}
				if n != r.Header().Samples {
					t.Errorf("%d samples, want %d", n, r.Header().Samples)
				}
			}
		})
	}
	group.Wait()
	r.Compact()
	r.Close()
	if got := r.Frames(); len(got) != 0 {
		t.Errorf("%d frames of a closed file", len(got))
	}
}
