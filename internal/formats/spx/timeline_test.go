package spx

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
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

func file(t testing.TB, samples []in) *reader.Reader {
	var f testenv.File
	w := testenv.Must(writer.New(&f, writer.Options{Start: start, Interval: interval, Uncompressed: true}))
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
		testenv.OK(t, w.WriteFrames(&sample, stack))
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
	tl, err := timelineOf(file(t, []in{
		{7, 0, 2000, true, "main work"},
		{1, 0, 1000, false, "main [select]"},
		{7, 0, 3000, false, "main work"},
		{7, 0, 5500, true, "main work spin"},
		{7, 0, 5400, true, "main"}, // a clock that goes back
		{1, 1, 500, true, ""},
		{7, 0, 6400, true, "main work"},
		{1, 0, 9000, true, "main [select]"},
	}))
	testenv.OK(t, err)
	var got strings.Builder
	for _, g := range tl.Goroutines {
		fmt.Fprintf(&got, "%d/%d from %v\n", g.ID, g.Interpreter, g.Start)
		for _, r := range g.Runs {
			fmt.Fprintf(&got, "  %d samples %v, %v on CPU: %s\n", r.Samples, r.Wall, r.CPU, tl.words(r.Node))
		}
	}
	testenv.NoDiff(t, "", cmp.Diff(`1/1 from 0s
  1 samples 1ms, 1ms on CPU: 
1/0 from 500µs
  2 samples 9ms, 8ms on CPU: main [select]
7/0 from 1.5ms
  2 samples 2ms, 1ms on CPU: main work
  1 samples 2.5ms, 2.5ms on CPU: main work spin
  1 samples 0s, 0s on CPU: main
  1 samples 1ms, 1ms on CPU: main work
`, got.String()))
	testenv.Same(t, "in all", tl.Wall, 15500*time.Microsecond)
	if tl.Interval != ms || !tl.Start.Equal(time.UnixMicro(start-500)) { // the first weight begins there
		t.Errorf("interval %v, start %v", tl.Interval, tl.Start)
	}
	testenv.Same(t, "nodes of main, [select], work, spin, and the root", len(tl.Nodes), 1+4)
}

// Whatever the file, its samples are in the runs of their goroutines, in order, with their weights.
func TestNothingIsLost(t *testing.T) {
	files := testenv.Files(t, "../../../testdata/tachyon/*/*.bin", 10)
	for _, name := range append(files, "../../analyze/testdata/sessions/fan-out.tach") {
		if filepath.Base(filepath.Dir(name)) == "bad" || strings.HasPrefix(filepath.Base(name), "big") || strings.HasPrefix(filepath.Base(name), "rle") { // slow, or with times that are refused
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := testenv.Must(reader.Open(name))
			defer r.Close()
			compare(t, r)
		})
	}
}

// compare compares the timeline of a file with its samples.
func compare(t *testing.T, r *reader.Reader) {
	t.Helper()
	tl := testenv.Must(timelineOf(r))
	type thread struct {
		id          uint64
		interpreter uint32
	}
	type step struct {
		stack     []tachyon.Frame
		wall, cpu time.Duration
	}
	src := testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{}))
	want, others, notSeen := map[thread][]step{}, 0, time.Duration(0)
	for s := range testenv.All(t, src.Samples()) {
		if s.NotSeen { // is a goroutine of its own, without samples
			others, notSeen = others+1, notSeen+s.Wall
			continue
		}
		x := step{wall: s.Wall, cpu: s.CPU()}
		for _, id := range slices.Backward(src.AppendStack(nil, s.Stack)) {
			x.stack = append(x.stack, src.Frames()[id])
		}
		k := thread{s.Goroutine, s.Interpreter}
		want[k] = append(want[k], x)
	}
	testenv.Same(t, "goroutines", len(tl.Goroutines), len(want)+others)
	var sum time.Duration
	for _, g := range tl.Goroutines {
		if g.Runs[0].Samples == 0 {
			sum, notSeen = sum+g.Runs[0].Wall, notSeen-g.Runs[0].Wall
			continue
		}
		steps := want[thread{g.ID, g.Interpreter}]
		for i, run := range g.Runs {
			if i > 0 && run.Node == g.Runs[i-1].Node {
				t.Fatal("two successive runs have the same stack")
			}
			var stack []tachyon.Frame
			for _, n := range tl.Path(nil, run.Node) {
				stack = append(stack, tl.Frames[tl.Nodes[n].Frame])
			}
			var wall, cpu time.Duration
			for _, x := range steps[:run.Samples] {
				if !slices.Equal(x.stack, stack) {
					t.Fatalf("a run of %v has a sample of %v", stack, x.stack)
				}
				wall, cpu = wall+x.wall, cpu+x.cpu
			}
			if steps = steps[run.Samples:]; wall != run.Wall || cpu != run.CPU {
				t.Fatalf("a run has %v, %v on CPU, its samples %v, %v", run.Wall, run.CPU, wall, cpu)
			}
			sum += wall
		}
		if len(steps) > 0 {
			t.Fatalf("%d samples of goroutine %d are in no run", len(steps), g.ID)
		}
	}
	testenv.Same(t, "the time of the runs, and what is not seen and in no run", [2]time.Duration{tl.Wall, notSeen}, [2]time.Duration{sum, 0})
}

func TestTimesThatOverflow(t *testing.T) {
	_, err := timelineOf(file(t, []in{{1, 0, 0, true, "a"}, {1, 0, 1 << 52, true, "a"}, {2, 0, 0, true, "a"}, {2, 0, 1 << 52, true, "a"}, {3, 0, 0, true, "a"}, {3, 0, 1 << 52, true, "a"}}))
	testenv.Fails(t, "", err, "add up to more than")
}

// The wall clock of a file is its header's or, better, its session's.
func TestStart(t *testing.T) {
	began := time.Date(2026, 11, 21, 4, 10, 24, 500, time.UTC)
	var f testenv.File
	w := testenv.Must(writer.New(&f, writer.Options{Start: 5, Interval: interval}))
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Program: "app", Start: began}))
	r := testenv.Finish(t, &f, w, reader.New)
	tl := testenv.Must(timelineOf(r))
	testenv.Same(t, "start and program", fmt.Sprint(tl.Start.UTC(), tl.Metadata.Session.Program), fmt.Sprint(began, "app"))
}

// timelineOf reads all samples of a file or another stream, and the goroutines' time that has no
// sample.
func timelineOf(s reader.Stream) (*Timeline, error) {
	src, err := stream.New([]stream.File{{Stream: s}}, stream.Options{})
	if err != nil {
		return nil, err
	}
	return NewTimeline(src)
}
