package jsonl

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/tach"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// The lines do not say when the profile began or its interval; both are guessed.
func TestClock(t *testing.T) {
	in := `{"thread_id":1,"timestamp":5000,"frames":[]}
{"thread_id":2,"timestamp":4000,"frames":[["","f",null]]}
{"thread_id":1,"timestamp":6000,"frames":[]}
{"thread_id":1,"timestamp":7000,"frames":[]}
{"thread_id":1,"timestamp":9000,"frames":[]}
`
	r := testenv.Must(Read(strings.NewReader(in)))
	testenv.Same(t, "start and interval", [2]uint64{r.Header().Start, r.Header().Interval}, [2]uint64{3000, 1000})
	testenv.Same(t, "no line", r.Frames()[0].Line, -1)
}

// More samples than are looked at first.
func TestLong(t *testing.T) {
	var in bytes.Buffer
	const n = lookahead*2 + 7
	for i := range n {
		fmt.Fprintf(&in, `{"thread_id":1,"interpreter_id":0,"timestamp":%d,"status":3,"frames":[["f.go","f%d",1]]}`+"\n", 1000*(i+1), i)
	}
	r := testenv.Must(Read(bytes.NewReader(in.Bytes())))
	var got bytes.Buffer
	testenv.OK(t, Write(&got, source(r)))
	testenv.Same(t, "lines", got.String(), in.String())
}

// source returns a stream as Write takes it.
func source(s reader.Stream) *stream.Source {
	return testenv.Must(stream.New([]stream.File{{Stream: s}}, stream.Options{Markers: true, Objects: true}))
}

func TestReadErrors(t *testing.T) {
	good := `{"thread_id":1,"timestamp":5,"status":3,"frames":[["f.go","f",1]]}` + "\n"
	for _, c := range []struct{ in, want string }{
		{good + "prose\n", "line 2: "},
		{good + "{}\n", "line 2: not a sample"},
		{`{"thread_id":1}`, "line 1: not a sample"},
		{`{"thread_id":-1,"timestamp":5}`, "line 1: "},
		{good + `{"thread_id":1,"timestamp":9007199254740993}`, "the timestamp 9007199254740993 is beyond the limit"},
		{`{"thread_id":1,"timestamp":5,"status":300}`, "line 1: "},
		{`{"thread_id":1,"timestamp":5,"frames":[["f.go","f"]]}`, "line 1: "},
		{`{"thread_id":1,"timestamp":5,"frames":[[1,2,3]]}`, "line 1: "},
		{good + strings.Repeat("x", maxLine+1), "line 2: longer than 16 MB"},
		{`{"gotach":"file","start_us":1}` + "\n" + `{"gotach":"file","start_us":1}`, "line 2: a line of the kind"},
		{`{"gotach":"session","program":1}`, "line 1: "},
		{`{"gotach":"session"}` + "\n" + `{"gotach":"session"}`, "line 2: a second line"},
		{`{"gotach":"goroutine","id":"x"}`, "line 1: "},
		{`{"gotach":"new","a":}`, "line 1: not JSON"},
		{`{"gotach":7}`, "line 1: "},
	} {
		testenv.Fails(t, c.in, testenv.Err(Read(strings.NewReader(c.in))), c.want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"thread_id":1,"timestamp":5,"status":3,"frames":[["f.go","f",1]]}`))
	f.Add([]byte(`{"thread_id":18446744073709551615,"timestamp":0,"frames":null}`))
	f.Add([]byte(`{"gotach":"file","start_us":1}` + "\n" + `{"gotach":"goroutine","id":1,"labels":[{"from_us":1,"labels":{"a":"b"}}]}` + "\n" + `{"gotach":"object","n":1}` + "\n" + `{"gotach":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r *reader.Reader
		var err error
		// The writer's buffers and its encoder take some MB whatever the input.
		testenv.Bounded(t, 32<<20+500*len(b), func() { r, err = Read(bytes.NewReader(b)) })
		if err != nil {
			return
		}
		for range testenv.All(t, r.Samples()) {
		}
	})
}

// Each check writes two files.
func init() { _ = flag.Set("rapid.checks", strconv.Itoa(testenv.Times(25, 1000))) }

// A recording is all that a file has.
type recording struct {
	Start, Interval uint64
	Metadata        *tachyon.Metadata
	Others          []tach.Other
	Samples         map[uint64][]string // by thread
}

func recordingOf(t rapid.TB, s *reader.Reader) recording {
	r := recording{Start: s.Header().Start, Interval: s.Header().Interval, Metadata: testenv.Must(s.Metadata()), Samples: map[uint64][]string{}}
	r.Others = testenv.Must(tach.OtherMetadata(s))
	frames := s.Frames()
	for x := range testenv.All(t, s.Samples()) {
		var stack []tachyon.Frame
		for _, id := range x.Stack {
			stack = append(stack, frames[id])
		}
		text, _ := json.Marshal([]any{x.Interpreter, x.Time, x.Status, stack})
		r.Samples[x.Thread] = append(r.Samples[x.Thread], string(text))
	}
	return r
}

// A file becomes lines, and the lines become a file with the same content.
func TestRoundTripOfFiles(t *testing.T) {
	text := rapid.OneOf(rapid.StringN(0, 8, -1), rapid.SampledFrom([]string{"", "<&>\"\\\u2028\x01", "日本"}))
	number := rapid.Uint64Range(0, 1<<40)
	config := rapid.MakeConfig{Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: text.AsAny(), reflect.Uint64: number.AsAny()}}
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Uint64Range(1, 1<<50).Draw(t, "start")
		file := testenv.Must(tach.InMemory(func(create tach.Create) error {
			w := testenv.Must(create(start, rapid.Uint64Range(0, 1e6).Draw(t, "interval")))
			at := start
			for range rapid.IntRange(0, 30).Draw(t, "samples") {
				at += rapid.Uint64Range(0, 1<<rapid.IntRange(1, 40).Draw(t, "bits")).Draw(t, "step")
				stack := []tachyon.Frame{{Func: "[" + text.Draw(t, "reason") + "]", Line: rapid.Int32Range(0, 9).Draw(t, "object")}, {File: text.Draw(t, "file"), Func: text.Draw(t, "function"), Line: 3}}
				s := tachyon.Sample{Thread: rapid.Uint64Range(1, 3).Draw(t, "thread"), Time: at, Status: tachyon.Status(rapid.Uint8().Draw(t, "status"))}
				testenv.OK(t, w.WriteFrames(&s, stack[rapid.IntRange(0, 1).Draw(t, "wait"):]))
			}
			r := tachyon.Records{
				Goroutines: rapid.SliceOfN(rapid.MakeCustom[tachyon.Goroutine](config), 0, 5).Draw(t, "goroutines"),
				Objects:    rapid.SliceOfN(rapid.MakeCustom[tachyon.Object](config), 0, 5).Draw(t, "objects"),
			}
			for i := range r.Goroutines {
				r.Goroutines[i].ID = uint64(i + 1)
			}
			for i := range r.Objects {
				r.Objects[i].Number = int32(i + 1)
			}
			testenv.OK(t, w.WriteRecords(&r))
			if rapid.Bool().Draw(t, "has a session") {
				testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{
					Program: text.Draw(t, "program"), VCS: rapid.MapOfN(text, text, 1, 2).Draw(t, "vcs"), Start: time.UnixMicro(int64(start)).UTC(),
					Duration: time.Duration(number.Draw(t, "duration")), RateReached: rapid.Float64Range(0, 1e6).Draw(t, "rate"),
					Markers: rapid.Bool().Draw(t, "markers"), System: rapid.Bool().Draw(t, "system"), Objects: tachyon.AllObjects,
					Counts: tachyon.Counts{TicksAsked: rapid.Int64().Draw(t, "ticks"), Throttled: 5},
				}))
			}
			if rapid.Bool().Draw(t, "has PCs") {
				testenv.OK(t, w.AddMetadata(tachyon.KindPCs, rapid.MakeCustom[tachyon.LeafPCs](config).Draw(t, "PCs")))
			}
			if rapid.Bool().Draw(t, "has something new") {
				testenv.OK(t, w.AddMetadata("new", map[string]any{"x": text.Draw(t, "new")}))
			}
			return nil
		}))
		var lines bytes.Buffer
		testenv.OK(t, Write(&lines, source(file)))
		for line := range bytes.Lines(lines.Bytes()) {
			testenv.FailIf(t, !json.Valid(line), "not JSON: %s", line)
		}
		testenv.FailIf(t, lines.Len() > 0 && !Sniff(lines.Bytes()[:min(lines.Len(), 4096)]), "these lines are not recognized: %s", lines.Bytes())
		want, got := recordingOf(t, file), recordingOf(t, testenv.Must(Read(&lines)))
		m := want.Metadata
		if m.Session == nil && m.PCs == nil && len(m.Goroutines)+len(m.Objects)+len(want.Others) == 0 {
			got.Start, got.Interval = want.Start, want.Interval // lines of files without metadata do not say it
			got.Metadata.Session = nil                          // and markers are guessed
		}
		testenv.NoDiff(t, "", cmp.Diff(want, got, cmp.EquateEmpty(), cmp.Ignore(tachyon.Metadata{}, "Checksum")))
	})
}

// A goroutine with very many labels takes several lines.
func TestManyLabels(t *testing.T) {
	want := tachyon.Goroutine{ID: 7, Parent: 1, CreatedBy: "main.main", First: 5, Last: 100_000}
	for i := range uint64(100) {
		want.Labels = append(want.Labels, tachyon.LabelSpan{From: i, Labels: map[string]string{"k": strings.Repeat("x", int(i*997))}})
	}
	file := testenv.Must(tach.InMemory(func(create tach.Create) error {
		return testenv.Must(create(1, 1)).WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{want}})
	}))
	var lines bytes.Buffer
	testenv.OK(t, Write(&lines, source(file)))
	longest := 0
	for line := range bytes.Lines(lines.Bytes()) {
		longest = max(longest, len(line))
	}
	testenv.Within(t, "the longest line", longest, 0, maxLabels+1000)
	again := testenv.Must(Read(&lines))
	for _, span := range want.Labels { // longer values are cut in files
		span.Labels["k"] = span.Labels["k"][:min(len(span.Labels["k"]), 64<<10)]
	}
	testenv.NoDiff(t, "", cmp.Diff([]tachyon.Goroutine{want}, recordingOf(t, again).Metadata.Goroutines))
}

// Lines with metadata may come after samples, and without the line of the file.
func TestMetadataAnywhere(t *testing.T) {
	s := testenv.Must(Read(strings.NewReader(`{"gotach":"goroutine","id":1,"created_by":"main.main","first_us":0,"last_us":9}
{"thread_id":1,"timestamp":5000,"frames":[]}
{"thread_id":1,"timestamp":6000,"frames":[]}
{"gotach":"object","n":3,"kind":"chan"}
{"gotach":"later","fields":[1]}
{"gotach":"session","program":"x"}
`)))
	r := recordingOf(t, s)
	if r.Start != 4000 || r.Interval != 1000 || len(r.Samples[1]) != 2 || r.Metadata.Session.Program != "x" ||
		r.Metadata.Goroutines[0].CreatedBy != "main.main" || r.Metadata.Objects[0].Number != 3 || r.Others[0].Kind != "later" {
		t.Errorf("%+v", r)
	}
}
