package reader_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
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
	"github.com/gotach/profiler/writer"
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
	testenv.FailIf(t, names < 1000, "%d names", names)
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
			w := all[n]
			testenv.FailIf(t, s.Thread != w.Thread || s.Time != w.Time || s.Status != w.Status || !slices.Equal(s.Stack, w.Stack), "sample %d before a break at %d is %+v, want %+v", n, stop, s, w)
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
	check(t, err, path, "offset")
	testenv.OK(t, testenv.Err(r.Metadata())) // the metadata are in memory
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
					testenv.FailIf(t, err != nil, "%v", err)
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
	testenv.FailIf(t, files < 50, "only %d files", files)
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
			testenv.StopIf(t, n == len(want), "%s: more than %d samples", name, n)
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
	testenv.Same(t, name+": samples and error", fmt.Sprint(n, gotErr), fmt.Sprint(len(want), wantErr))
}

// An iteration over batches that is broken off leaves nothing behind, and others may run beside it.
func TestBatchesBreak(t *testing.T) {
	r := open(t, filepath.Join(testdata, "document-v2", "big.zstd.bin"))
	for b, err := range r.Batches(nil, tachyon.MaxTime) {
		testenv.StopIf(t, err != nil || len(b.Samples) == 0, "%v", err)
		samples := 0
		for b := range testenv.All(t, r.Batches(nil, tachyon.MaxTime)) {
			samples += len(b.Samples)
		}
		testenv.Same(t, "samples", samples, 200_000)
		break
	}
}

// A Follower that polls at any times finds the samples that a Reader finds in the finished file, each once,
// those of a thread in their order. It finds them while they are only in the journal.
func TestFollower(t *testing.T) {
	for _, c := range []struct{ uncompressed, atOnce bool }{{false, false}, {true, true}, {true, false}, {false, true}}[:testenv.Times(testenv.Brief(1, 2), 4)] {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { follow(t, c.uncompressed, c.atOnce) })
	}
}

// follow writes and polls in turns, or at once.
func follow(t *testing.T, uncompressed, atOnce bool) {
	path := filepath.Join(t.TempDir(), "f.tach")
	const start = 1_795_234_224_000_000
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000, Uncompressed: uncompressed}))
	testenv.OK(t, w.Provisional(tachyon.KindSession, &tachyon.Session{Program: "p", Source: "native"}))
	f := testenv.Closes(t, testenv.Must(reader.Follow(path)))
	got := map[reader.Thread][]string{}
	goroutines := map[uint64]string{}
	var threads []reader.Thread
	samples := 0
	text := func(at uint64, status tachyon.Status, stack []uint32, frames []tachyon.Frame) string {
		b := fmt.Append(nil, at, " ", status)
		for _, id := range stack {
			b = append(append(b, ' '), frames[id].Func...)
		}
		return string(b)
	}
	news := reader.News{
		Batch: func(b *reader.Batch) {
			threads = append(threads, b.Threads...)
			for _, s := range b.Samples {
				var stack []uint32
				for n := s.Stack; n != 0; n = b.Stacks[n].Caller {
					stack = append(stack, b.Stacks[n].Frame)
				}
				k := threads[s.Thread]
				testenv.FailIf(t, s.First != (len(got[k]) == 0), "thread %v: First is %v at sample %d", k, s.First, len(got[k]))
				got[k] = append(got[k], text(s.Time, s.Status, stack, f.Frames()))
				samples++
			}
		},
		Goroutine: func(g *tachyon.Goroutine) {
			if g.CreatedBy != "" {
				goroutines[g.ID] = g.CreatedBy
			}
		},
	}
	r := rand.New(rand.NewPCG(1, 1))
	stacks := map[uint64][]tachyon.Frame{}
	at, written, told := uint64(start), 0, 0
	polls := rand.New(rand.NewPCG(1, 2))
	write := func() error {
		at += uint64(r.IntN(50))
		id := 1 + r.Uint64N(20)
		if stacks[id] == nil || r.IntN(2) == 0 { // together more than a buffer
			stacks[id] = nil
			for range 1 + r.IntN(200) {
				stacks[id] = append(stacks[id], tachyon.Frame{File: "f.go", Func: fmt.Sprint("main.f", r.IntN(3000)), Line: 1})
			}
		}
		written++
		if r.IntN(3) == 0 { // together more than a page of blocks
			told++
			g := tachyon.Goroutine{ID: uint64(1000 + written), CreatedBy: fmt.Sprint("creator ", r.Perm(40))}
			if err := w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{g}}); err != nil {
				return err
			}
		}
		return w.WriteFrames(&tachyon.Sample{Thread: id, Time: at, Status: tachyon.Status(r.IntN(3))}, stacks[id])
	}
	const count = 5500
	if atOnce {
		done := make(chan error)
		go func() {
			var err error
			for range count {
				err = errors.Join(err, write())
			}
			done <- err
		}()
		for more := true; more; {
			select {
			case err := <-done:
				more = false
				testenv.OK(t, err)
			default:
			}
			testenv.OK(t, f.Poll(news))
		}
	} else {
		for range count {
			testenv.OK(t, write())
			if polls.IntN(300) == 0 {
				if err := f.Poll(news); err != nil || samples != written {
					t.Fatalf("%d samples after Poll, %d were written; %v", samples, written, err)
				}
			}
		}
	}
	testenv.OK(t, f.Poll(news))
	if f.Session() == nil || f.Session().Program != "p" || len(goroutines) != told || samples != written {
		t.Fatalf("session %v, %d of %d goroutines, %d of %d samples", f.Session(), len(goroutines), told, samples, written)
	}
	testenv.OK(t, w.Close())
	testenv.OK(t, f.Poll(news))
	testenv.Same(t, "finished", f.Finished(), true)
	want := map[reader.Thread][]string{}
	whole := open(t, path)
	for s := range testenv.All(t, whole.Samples()) {
		k := reader.Thread{ID: s.Thread, Interpreter: s.Interpreter}
		want[k] = append(want[k], text(s.Time, s.Status, s.Stack, whole.Frames()))
	}
	if !reflect.DeepEqual(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}
