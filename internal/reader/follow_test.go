package reader_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	gocmp "github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A Follower that polls at any times finds the samples that a Reader finds in the finished file, each once,
// those of a thread in their order. It finds them while they are only in the journal.
func TestFollower(t *testing.T) {
	for _, c := range []struct{ uncompressed, atOnce bool }{{false, false}, {true, true}, {true, false}, {false, true}}[:testenv.Brief(1, 4)] {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { follow(t, c.uncompressed, c.atOnce) })
	}
}

// follow writes and polls in turns, or at once.
func follow(t *testing.T, uncompressed, atOnce bool) {
	path := filepath.Join(t.TempDir(), "f.tach")
	const start = 1_795_234_224_000_000
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000, Uncompressed: uncompressed}))
	testenv.OK(t, w.Provisional(tachyon.KindSession, &tachyon.Session{Program: "p", Source: "native"}))
	f := testenv.Must(reader.Follow(path))
	defer f.Close()
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
				err = cmp.Or(err, write())
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
		t.Error(gocmp.Diff(want, got))
	}
}
