package timeline

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const (
	start    = 1_795_234_224_000_000 // µs
	interval = 1000
)

// in is a sample as a test writes it: the stack is a word a frame, outermost first.
type in struct {
	thread uint64
	interp uint32
	at     uint64 // µs since start
	cpu    bool
	stack  string
}

func file(t interface{ Fatal(...any) }, samples []in) *reader.Reader {
	var f testenv.File
	w, err := writer.New(&f, writer.Options{Start: start, Interval: interval, Uncompressed: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		sample := tachyon.Sample{Thread: s.thread, Interpreter: s.interp, Time: start + s.at}
		if s.cpu {
			sample.Status = tachyon.OnCPU
		}
		words := strings.Fields(s.stack)
		slices.Reverse(words)
		stack := make([]tachyon.Frame, len(words))
		for i, word := range words {
			stack[i] = tachyon.Frame{Func: word, File: word + ".go", Line: 1}
		}
		if err := w.WriteFrames(&sample, stack); err != nil {
			t.Fatal(err)
		}
	}
	return testenv.Finish(t, &f, w, reader.New)
}

// words returns the stack of a node as in.stack has it.
func (t *Timeline) words(node uint32) string {
	var out []string
	for _, n := range t.Path(nil, node) {
		out = append(out, t.Frames[t.Nodes[n].Frame].Func)
	}
	return strings.Join(out, " ")
}

func TestRunsAndWeights(t *testing.T) {
	tl, err := FromTachyon(file(t, []in{
		{7, 0, 2000, true, "main work"},
		{1, 0, 1000, false, "main [select]"},
		{7, 0, 3000, false, "main work"},
		{7, 0, 5500, true, "main work spin"},
		{7, 0, 5400, true, "main"}, // a clock that goes back
		{1, 1, 500, true, ""},
		{7, 0, 6400, true, "main work"},
		{1, 0, 9000, true, "main [select]"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	type run struct {
		stack     string
		samples   uint32
		wall, cpu time.Duration
	}
	const ms = time.Millisecond
	want := []struct {
		id     uint64
		interp uint32
		start  time.Duration
		runs   []run
	}{
		{1, 1, 0, []run{{"", 1, ms, ms}}},
		{1, 0, ms / 2, []run{{"main [select]", 2, 9 * ms, 8 * ms}}},
		{7, 0, ms + ms/2, []run{
			{"main work", 2, 2 * ms, ms},
			{"main work spin", 1, 2500 * time.Microsecond, 2500 * time.Microsecond},
			{"main", 1, 0, 0},
			{"main work", 1, ms, ms},
		}},
	}
	if len(tl.Goroutines) != len(want) {
		t.Fatalf("%d goroutines, want %d", len(tl.Goroutines), len(want))
	}
	for i, w := range want {
		g := &tl.Goroutines[i]
		if g.ID != w.id || g.Interpreter != w.interp || g.Start != w.start {
			t.Errorf("goroutine %d is %d/%d from %v, want %d/%d from %v", i, g.ID, g.Interpreter, g.Start, w.id, w.interp, w.start)
		}
		var got []run
		for _, r := range g.Runs {
			got = append(got, run{tl.words(r.Node), r.Samples, r.Wall, r.CPU})
		}
		if !slices.Equal(got, w.runs) {
			t.Errorf("goroutine %d ran\n%v, want\n%v", w.id, got, w.runs)
		}
	}
	if tl.Wall != 15500*time.Microsecond {
		t.Errorf("%v in all", tl.Wall)
	}
	if tl.Interval != ms || !tl.Start.Equal(time.UnixMicro(start-500)) { // the first weight begins there
		t.Errorf("interval %v, start %v", tl.Interval, tl.Start)
	}
	if len(tl.Nodes) != 1+4 {
		t.Errorf("%d nodes for main, [select], work, spin", len(tl.Nodes)-1)
	}
}

func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 6)
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) in {
			return in{
				thread: rapid.Uint64Range(1, 4).Draw(t, "thread"),
				interp: rapid.Uint32Range(0, 1).Draw(t, "interpreter"),
				at:     rapid.Uint64Range(0, 50_000).Draw(t, "at"),
				cpu:    rapid.Bool().Draw(t, "cpu"),
				stack:  strings.Join(words.Draw(t, "stack"), " "),
			}
		}), 0, 60).Draw(t, "samples")
		slices.SortStableFunc(samples, func(x, y in) int { return int(x.at) - int(y.at) })

		tl, err := FromTachyon(file(t, samples))
		if err != nil {
			t.Fatal(err)
		}
		// What each goroutine did, sample by sample.
		type step struct {
			stack     string
			wall, cpu time.Duration
		}
		type key struct {
			thread      uint64
			interpreter uint32
		}
		want := map[key][]step{}
		last := map[key]uint64{}
		for _, s := range samples {
			k := key{s.thread, s.interp}
			x := step{stack: s.stack, wall: interval * time.Microsecond}
			if prev, ok := last[k]; ok {
				x.wall = time.Duration(s.at-prev) * time.Microsecond
			}
			last[k] = s.at
			if s.cpu {
				x.cpu = x.wall
			}
			want[k] = append(want[k], x)
		}
		if len(tl.Goroutines) != len(want) {
			t.Fatalf("%d goroutines, want %d", len(tl.Goroutines), len(want))
		}
		var wall time.Duration
		for _, g := range tl.Goroutines {
			steps := want[key{g.ID, g.Interpreter}]
			for i, r := range g.Runs {
				if i > 0 && r.Node == g.Runs[i-1].Node {
					t.Fatal("two successive runs have the same stack")
				}
				got := step{stack: tl.words(r.Node)}
				for _, s := range steps[:r.Samples] {
					if s.stack != got.stack {
						t.Fatalf("run of %q has a sample of %q", got.stack, s.stack)
					}
					got.wall += s.wall
					got.cpu += s.cpu
				}
				steps = steps[r.Samples:]
				if got.wall != r.Wall || got.cpu != r.CPU {
					t.Fatalf("run weighs %v, %v on CPU, its samples %v, %v", r.Wall, r.CPU, got.wall, got.cpu)
				}
				wall += r.Wall
			}
			if len(steps) > 0 {
				t.Fatalf("%d samples are in no run", len(steps))
			}
		}
		if tl.Wall != wall {
			t.Fatalf("in all %v, the runs %v", tl.Wall, wall)
		}
	})
}

func TestTimesThatOverflow(t *testing.T) {
	_, err := FromTachyon(file(t, []in{{1, 0, 0, true, "a"}, {1, 0, 1 << 62, true, "a"}, {1, 0, 1<<63 - 1, true, "a"}}))
	if err == nil || !strings.Contains(err.Error(), "add up to more than") {
		t.Errorf("error is %v", err)
	}
}

func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("../../testdata/tachyon/*/*.bin")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if filepath.Base(filepath.Dir(name)) == "bad" {
			continue
		}
		r, err := reader.Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		tl, err := FromTachyon(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		samples := uint64(0)
		for _, g := range tl.Goroutines {
			for _, run := range g.Runs {
				samples += uint64(run.Samples)
			}
		}
		if h := r.Header(); samples != h.Samples || len(tl.Goroutines) != int(h.Threads) {
			t.Errorf("%s: %d samples of %d goroutines, the header says %d of %d", name, samples, len(tl.Goroutines), h.Samples, h.Threads)
		}
		r.Close()
	}
}

func BenchmarkFromTachyon(b *testing.B) {
	r, err := reader.Open("../../testdata/tachyon/document-v2/big.zstd.bin")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		if _, err := FromTachyon(r); err != nil {
			b.Fatal(err)
		}
		n += r.Header().Samples
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "samples/s")
}

// The wall clock of a file is its header's or, better, its session's.
func TestStart(t *testing.T) {
	began := time.Date(2026, 11, 21, 4, 10, 24, 500, time.UTC)
	var f testenv.File
	w, err := writer.New(&f, writer.Options{Start: 5, Interval: interval})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddMetadata(tachyon.KindSession, tachyon.Session{Program: "app", Start: began}); err != nil {
		t.Fatal(err)
	}
	r := testenv.Finish(t, &f, w, reader.New)
	tl, err := FromTachyon(r)
	if err != nil {
		t.Fatal(err)
	}
	if !tl.Start.Equal(began) || tl.Metadata.Session.Program != "app" {
		t.Errorf("start is %v of %v", tl.Start, tl.Metadata.Session)
	}
}
