package spx

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// run is a stretch of time: a stack, a word a frame and outermost first.
type run struct {
	stack     string
	wall, cpu time.Duration
}

// life is what one goroutine did.
type life struct {
	id   uint64
	runs []run
}

var session = &tachyon.Session{
	Program: "server", Host: "dev box", PID: 4711,
	Start: time.Date(2026, 11, 21, 4, 10, 24, 0, time.UTC),
}

// newTimeline makes a timeline. A word of a stack is function@line.
func newTimeline(lives ...life) *Timeline {
	t := &Timeline{
		Start: session.Start, Interval: time.Millisecond,
		Nodes: make([]Node, 1), Metadata: &tachyon.Metadata{Session: session},
	}
	for _, l := range lives {
		g := Goroutine{ID: l.id}
		for _, r := range l.runs {
			node := uint32(0)
			for word := range strings.FieldsSeq(r.stack) {
				name, line, _ := strings.Cut(word, "@")
				f := tachyon.Frame{Func: name, File: "x.go", Line: int32(len(line))}
				frame := slices.Index(t.Frames, f)
				if frame < 0 {
					frame = len(t.Frames)
					t.Frames = append(t.Frames, f)
				}
				n := Node{Parent: node, Frame: uint32(frame), Depth: t.Nodes[node].Depth + 1}
				child := slices.Index(t.Nodes, n)
				if child < 0 {
					child = len(t.Nodes)
					t.Nodes = append(t.Nodes, n)
				}
				node = uint32(child)
			}
			g.Runs = append(g.Runs, Run{Node: node, Samples: 1, Wall: r.wall, CPU: r.cpu})
			t.Wall += r.wall
		}
		t.Goroutines = append(t.Goroutines, g)
	}
	return t
}

const ms = time.Millisecond

var example = []life{
	{1, []run{
		{"main.main main.run", 2 * ms, 2 * ms},
		{"main.main main.run main.step", 3 * ms, 1 * ms},
		{"main.main main.run@a main.step@b", 1 * ms, 0}, // other lines, the same calls
		{"main.main", 1 * ms, 1 * ms},
	}},
	{18, []run{{"main.worker [select]", 7 * ms, 0}}},
}

// pair writes a timeline and returns where.
func pair(t testing.TB, tl *Timeline, o Options) (dir string, keys []string) {
	dir = t.TempDir()
	return dir, testenv.Must(Write(dir, tl, o))
}

func TestWriteEvents(t *testing.T) {
	dir, keys := pair(t, newTimeline(example...), Options{})
	got := string(gunzip(t, filepath.Join(dir, keys[0]+".txt.gz")))
	want := `[events]
0 1 0 0 0
1 1 0 0 0
2 1 0 0 0
3 1 2000000 2000000 0
3 0 6000000 3000000 3000000
2 0 6000000 3000000 3000000
1 0 7000000 4000000 3000000
0 0 7000000 4000000 3000000
4 1 7000000 4000000 3000000
5 1 7000000 4000000 3000000
6 1 7000000 4000000 3000000
6 0 14000000 4000000 10000000
5 0 14000000 4000000 10000000
4 0 14000000 4000000 10000000
[functions]
goroutine 1
main.main
main.run
main.step
goroutine 18
main.worker
[select]
`
	testenv.Same(t, "wrote", got, want)
}

func TestWriteMicroseconds(t *testing.T) {
	dir, keys := pair(t, newTimeline(life{1, []run{{"a", 1234567, 1000060}}}), Options{Microseconds: true})
	got := string(gunzip(t, filepath.Join(dir, keys[0]+".txt.gz")))
	testenv.Has(t, "events", got, "0 1 0.0000 0.0000 0.0000\n", "1 0 1234.5670 1000.0600 234.5070\n")
}

func TestWritePerGoroutine(t *testing.T) {
	tl := newTimeline(life{1, []run{{"a b c", ms, ms}}}, life{18, []run{{"d", ms, 0}, {"c b", 7 * ms, 0}}})
	tl.Goroutines[1].Start = 2 * time.Second
	dir, keys := pair(t, tl, Options{PerGoroutine: true})
	var starts []int64
	for i, want := range []string{"goroutine 1 1, a 1, b 1, c 1", "goroutine 18 8, d 1, c 7, b 7"} {
		r := testenv.Must(Open(filepath.Join(dir, keys[i])))
		flat := flat(t, r)
		var got []string
		for _, f := range flat {
			got = append(got, fmt.Sprint(f.Name, " ", f.Inc[0]/1e6))
		}
		testenv.Same(t, "functions and their milliseconds", strings.Join(got, ", "), want)
		starts = append(starts, r.Metadata().ExecTS)
		r.Close()
	}
	testenv.Same(t, "seconds between the starts", starts[1]-starts[0], 2)
}

// The musts of reports that SPX's pages show right, on one that has everything.
func TestPairIsAsSPXNeedsIt(t *testing.T) {
	lives := append([]life{}, example...)
	lives = append(lives, life{19, []run{
		{"constructor __proto__ [functions] [events] ünï\x01x<T>&\"'", 5 * ms, 5 * ms},
		{"", ms, 0},
	}})
	tl := newTimeline(lives...)
	tl.Frames = append(tl.Frames, tachyon.Frame{File: "/srv/app.py"}, tachyon.Frame{})
	dir, keys := pair(t, tl, Options{})

	in := bytes.NewReader(testenv.Must(os.ReadFile(filepath.Join(dir, keys[0]+".txt.gz"))))
	z := testenv.Must(gzip.NewReader(in))
	z.Multistream(false)
	text := testenv.Must(io.ReadAll(z))
	testenv.Same(t, "bytes after the first gzip member", in.Len(), 0)
	testenv.Same(t, "what is not ASCII, or a last line that is not ended", string(regexp.MustCompile(`[^ -~\n]|[^\n]\z`).Find(text)), "")
	events, functions, ok := strings.Cut(string(text), "\n[functions]\n")
	testenv.FailIf(t, !ok || strings.Contains(functions, "[functions]\n") || strings.Contains(functions, "[events]\n"), "there is not exactly one of each section")
	for name := range strings.Lines(functions) {
		name = strings.TrimSuffix(name, "\n")
		testenv.FailIf(t, name == "constructor" || name == "__proto__" || name == "" || strings.ContainsAny(name, "<>\""), "function %q", name)
		if strings.Contains(regexp.MustCompile(`&(lt|gt|amp|#[0-9]+);`).ReplaceAllString(name, ""), "&") {
			t.Errorf("function %q has & that is no entity", name)
		}
	}
	exits := len(regexp.MustCompile(`(?m)^[0-9]+ 0 `).FindAllString(events, -1))

	b := testenv.Must(os.ReadFile(filepath.Join(dir, keys[0]+".json")))
	var meta map[string]any
	testenv.OK(t, json.Unmarshal(b, &meta))
	want := map[string]any{
		"key": keys[0], "exec_ts": float64(session.Start.Unix()), "host_name": "dev box",
		"process_pid": 4711.0, "process_tid": 4711.0, "process_pwd": "n/a", "cli": 1.0, "cli_command_line": "server",
		"http_request_uri": "n/a", "http_method": "n/a", "http_host": "n/a",
		"custom_metadata_str": "gotach: sampled every 1ms. Called counts stretches observed, not calls.",
		"wall_time_ms":        float64(tl.Wall.Microseconds()), "peak_memory_usage": 0.0,
		"called_function_count": float64(strings.Count(functions, "\n")),
		"call_count":            float64(exits), "recorded_call_count": float64(exits), "enabled_metrics": []any{"wt", "ct", "it"},
	}
	testenv.NoDiff(t, "metadata", cmp.Diff(want, meta))
	testenv.FailIf(t, !regexp.MustCompile(`^spx-full-20261121_041024-dev_box-4711-[0-9]+$`).MatchString(keys[0]), "key is %s", keys[0])

	// Read again, names are what they were.
	r := testenv.Closes(t, testenv.Must(Open(filepath.Join(dir, keys[0]))))
	flat(t, r)
	names := "\n"
	for _, f := range r.Functions() {
		names += f.Name + "\n"
	}
	testenv.Has(t, "names", names, "\ngoroutine 19\nconstructor\n__proto__\n[functions]\n[events]\nünï x<T>&\"'\n")
}

func TestManyGoroutinesShareRoots(t *testing.T) {
	var lives []life
	for i := range manyGoroutines + 1 {
		lives = append(lives, life{uint64(i), []run{{fmt.Sprintf("main.worker%d x", i%2), ms, 0}}})
	}
	lives = append(lives, life{9999, []run{{"", ms, 0}}})
	dir, keys := pair(t, newTimeline(lives...), Options{})
	flat := flat(t, testenv.Closes(t, testenv.Must(Open(filepath.Join(dir, keys[0])))))
	got := map[string]int64{}
	for _, f := range flat {
		got[f.Name] = f.Called
	}
	want := map[string]int64{
		"goroutines of main.worker0": 151, "goroutines of main.worker1": 150, "goroutines without a stack": 1,
		"main.worker0": 151, "main.worker1": 150, "x": 301,
	}
	testenv.NoDiff(t, "", cmp.Diff(want, got))
}

func TestFunctionsOfOneNameStayApart(t *testing.T) {
	tl := newTimeline(life{1, []run{{"run", ms, ms}, {"run", ms, ms}}})
	tl.Frames = []tachyon.Frame{{Func: "run", File: "a.py", Line: 1}, {Func: "run", File: "b.py", Line: 1}}
	tl.Nodes = append(tl.Nodes, Node{Parent: 1, Frame: 1, Depth: 2})
	tl.Goroutines[0].Runs[1].Node = 2
	tl.Metadata = nil
	dir, keys := pair(t, tl, Options{})
	testenv.Has(t, "report", string(gunzip(t, filepath.Join(dir, keys[0]+".txt.gz"))), "[functions]\nthread 1\nrun\nrun (b.py)\n")
}

func TestWriteRefusesNothing(t *testing.T) {
	dir := t.TempDir()
	testenv.Fails(t, "", testenv.Err(Write(dir, newTimeline(), Options{})), "no samples")
	testenv.Empty(t, dir)
}

func TestFailedReportLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w := testenv.Must(create(dir, Metadata{Key: "k"}))
	w.enter("a")
	w.leave(0)
	w.file.Close()
	testenv.Fails(t, "", w.close(), os.ErrClosed.Error())
	testenv.Empty(t, dir)
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "k.txt.gz"), nil, 0o600))
	testenv.Fails(t, "a report that is there", testenv.Err(create(dir, Metadata{Key: "k"})), "file exists")
}

const (
	start    = 1_795_234_224_000_000 // µs
	interval = 1000
)

// Whatever the file, its samples are in the runs of their goroutines, in order, with their weights.
func TestNothingIsLost(t *testing.T) {
	files := testenv.Files(t, "../../../testdata/tachyon/*/*.bin", 10)
	for _, name := range append(files, "../../analyze/testdata/sessions/fan-out.tach") {
		if filepath.Base(filepath.Dir(name)) == "bad" || strings.HasPrefix(filepath.Base(name), "big") || strings.HasPrefix(filepath.Base(name), "rle") { // slow, or with times that are refused
			continue
		}
		t.Run(name, func(t *testing.T) {
			compare(t, testenv.Closes(t, testenv.Must(reader.Open(name))))
		})
	}
}

// compare compares the timeline of a file with its samples.
func compare(t *testing.T, r *reader.Reader) {
	t.Helper()
	tl := testenv.Must(timelineOf(r))
	type step struct {
		stack     []tachyon.Frame
		wall, cpu time.Duration
		begin     int64 // µs
	}
	src := testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{}))
	want, others, notSeen := map[reader.Thread][]step{}, 0, time.Duration(0)
	for s := range testenv.All(t, src.Samples()) {
		if s.NotSeen { // is a goroutine of its own, without samples
			others, notSeen = others+1, notSeen+s.Wall
			continue
		}
		x := step{wall: s.Wall, cpu: s.CPU(), begin: int64(s.Time) - s.Wall.Microseconds()}
		for _, id := range slices.Backward(src.AppendStack(nil, s.Stack)) {
			x.stack = append(x.stack, src.Frames()[id])
		}
		k := reader.Thread{ID: s.Goroutine, Interpreter: s.Interpreter}
		want[k] = append(want[k], x)
	}
	testenv.Same(t, "goroutines", len(tl.Goroutines), len(want)+others)
	var sum time.Duration
	for _, g := range tl.Goroutines {
		if g.Runs[0].Samples == 0 {
			sum, notSeen = sum+g.Runs[0].Wall, notSeen-g.Runs[0].Wall
			continue
		}
		steps := want[reader.Thread{ID: g.ID, Interpreter: g.Interpreter}]
		testenv.Same(t, "the start", tl.Start.Add(g.Start).UnixMicro(), steps[0].begin)
		for i, run := range g.Runs {
			testenv.FailIf(t, i > 0 && run.Node == g.Runs[i-1].Node, "two successive runs have the same stack")
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
			steps = steps[run.Samples:]
			testenv.FailIf(t, wall != run.Wall || cpu != run.CPU, "a run has %v, %v on CPU, its samples %v, %v", run.Wall, run.CPU, wall, cpu)
			sum += wall
		}
		testenv.FailIf(t, len(steps) > 0, "%d samples of goroutine %d are in no run", len(steps), g.ID)
	}
	testenv.Same(t, "the time of the runs, and what is not seen and in no run", [2]time.Duration{tl.Wall, notSeen}, [2]time.Duration{sum, 0})
}

func TestTimesThatOverflow(t *testing.T) {
	var f testenv.File
	w := testenv.Must(writer.New(&f, writer.Options{Start: start, Interval: interval}))
	for i := range uint64(6) {
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: i / 2, Time: start + i%2<<52}, []tachyon.Frame{{Func: "a"}}))
	}
	testenv.Fails(t, "", testenv.Err(timelineOf(testenv.Finish(t, &f, w, reader.New))), "add up to more than")
}

// The wall clock of a file is its header's or, better, its session's.
func TestStart(t *testing.T) {
	began := time.Date(2026, 11, 21, 4, 10, 24, 500, time.UTC)
	var f testenv.File
	w := testenv.Must(writer.New(&f, writer.Options{Start: 5, Interval: interval}))
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Program: "app", Start: began}))
	tl := testenv.Must(timelineOf(testenv.Finish(t, &f, w, reader.New)))
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
