package reader_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A Follower that polls at any times finds the samples that a Reader finds in the finished file, each once,
// those of a thread in their order. It finds them while they are only in the journal.
func TestFollower(t *testing.T) {
	for _, uncompressed := range []bool{false, true} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint("uncompressed ", uncompressed, " seed ", seed), func(t *testing.T) { follow(t, uncompressed, seed) })
		}
	}
}

func follow(t *testing.T, uncompressed bool, seed uint64) {
	path := filepath.Join(t.TempDir(), "f.tach")
	const start = 1_795_234_224_000_000
	w, err := writer.Create(path, writer.Options{Start: start, Interval: 1000, Uncompressed: uncompressed})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Provisional(tachyon.KindSession, &tachyon.Session{Program: "p", Source: "native"}); err != nil {
		t.Fatal(err)
	}
	f, err := reader.Follow(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[reader.Thread][]string{}
	goroutines := map[uint64]string{}
	var threads []reader.Thread
	samples := 0
	text := func(at uint64, status tachyon.Status, stack []uint32, frames []tachyon.Frame) string {
		s := fmt.Sprint(at, " ", status)
		for _, id := range stack {
			s += " " + frames[id].Func
		}
		return s
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
				if s.First != (len(got[k]) == 0) {
					t.Fatalf("thread %v: First is %v at sample %d", k, s.First, len(got[k]))
				}
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
	r := rand.New(rand.NewPCG(seed, 1))
	stacks := map[uint64][]tachyon.Frame{}
	at, written := uint64(start), 0
	for range 30_000 {
		at += uint64(r.IntN(50))
		id := 1 + r.Uint64N(20)
		if stacks[id] == nil {
			if err := w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: id, CreatedBy: fmt.Sprint("creator", id)}}}); err != nil {
				t.Fatal(err)
			}
		}
		if stacks[id] == nil || r.IntN(4) == 0 {
			var stack []tachyon.Frame
			for i := range 1 + r.IntN(30) {
				stack = append(stack, tachyon.Frame{File: "f.go", Func: fmt.Sprint("main.f", r.IntN(300), ".", i), Line: 1})
			}
			stacks[id] = stack
		}
		if err := w.WriteFrames(&tachyon.Sample{Thread: id, Time: at, Status: tachyon.Status(r.IntN(3))}, stacks[id]); err != nil {
			t.Fatal(err)
		}
		written++
		if r.IntN(1000) == 0 {
			if err := f.Poll(news); err != nil {
				t.Fatal(err)
			}
			if samples != written {
				t.Fatalf("%d samples after Poll, %d were written", samples, written)
			}
			if f.Session() == nil || f.Session().Program != "p" || len(goroutines) != len(stacks) {
				t.Fatalf("session %v, %d of %d goroutines", f.Session(), len(goroutines), len(stacks))
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Poll(news); err != nil {
		t.Fatal(err)
	}
	if !f.Finished() {
		t.Error("not finished")
	}
	want := map[reader.Thread][]string{}
	whole, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	for s, err := range whole.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		k := reader.Thread{ID: s.Thread, Interpreter: s.Interpreter}
		want[k] = append(want[k], text(s.Time, s.Status, slices.Clone(s.Stack), whole.Frames()))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
