package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\"b\\c\n\t\r\b\f\x00\x1f\x7f\u2028<&>", "日本"}))
		var want bytes.Buffer
		type sample struct {
			thread, time uint64
			status       uint8
		}
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			s := sample{rapid.Uint64Range(1, 2).Draw(t, "thread"), rapid.Uint64().Draw(t, "time"), rapid.Uint8().Draw(t, "status")}
			var frames []tachyon.Frame
			var stack []uint32
			for i := range rapid.IntRange(0, 3).Draw(t, "depth") {
				frames = append(frames, tachyon.Frame{File: text.Draw(t, "file"), Func: text.Draw(t, "func"), Line: rapid.Int32().Draw(t, "line")})
				stack = append(stack, uint32(i))
			}
			one := single{frames, &tachyon.Sample{Thread: s.thread, Time: s.time, Status: tachyon.Status(s.status), Stack: stack}}
			if err := Write(&want, one); err != nil {
				t.Fatal(err)
			}
		}
		for line := range bytes.Lines(want.Bytes()) {
			if !json.Valid(line) {
				t.Fatalf("not JSON: %s", line)
			}
		}
		r, err := Read(bytes.NewReader(want.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := Write(&got, r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(byThread(want.String()), byThread(got.String())); diff != "" {
			t.Error(diff)
		}
	})
}

// single is a stream of one sample.
type single struct {
	frames []tachyon.Frame
	sample *tachyon.Sample
}

func (s single) Header() tachyon.Header               { return tachyon.Header{} }
func (s single) Frames() []tachyon.Frame              { return s.frames }
func (s single) Metadata() (*tachyon.Metadata, error) { return &tachyon.Metadata{}, nil }
func (s single) Samples() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) { yield(s.sample, nil) }
}

// byThread groups lines: a file keeps order within a thread only.
func byThread(lines string) map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(lines) {
		key, _, _ := strings.Cut(line, `,"timestamp"`)
		out[key] = append(out[key], line)
	}
	return out
}

// The lines do not say when the profile began or its interval; both are guessed.
func TestClock(t *testing.T) {
	in := `{"thread_id":1,"timestamp":5000,"frames":[]}
{"thread_id":2,"timestamp":4000,"frames":[["","f",null]]}
{"thread_id":1,"timestamp":6000,"frames":[]}
{"thread_id":1,"timestamp":7000,"frames":[]}
{"thread_id":1,"timestamp":9000,"frames":[]}
`
	r, err := Read(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Header(); h.Start != 3000 || h.Interval != 1000 {
		t.Errorf("start %d, interval %d; want 3000, 1000", h.Start, h.Interval)
	}
	if f := r.Frames()[0]; f.Line != -1 {
		t.Errorf("no line is %d", f.Line)
	}
}

// More samples than are looked at first.
func TestLong(t *testing.T) {
	var in bytes.Buffer
	const n = lookahead*2 + 7
	for i := range n {
		fmt.Fprintf(&in, `{"thread_id":1,"interpreter_id":0,"timestamp":%d,"status":3,"frames":[["f.go","f%d",1]]}`+"\n", 1000*(i+1), i)
	}
	r, err := Read(bytes.NewReader(in.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := Write(&got, r); err != nil {
		t.Fatal(err)
	}
	if got.String() != in.String() {
		t.Error("not what went in")
	}
}

func TestReadErrors(t *testing.T) {
	good := `{"thread_id":1,"timestamp":5,"status":3,"frames":[["f.go","f",1]]}` + "\n"
	for _, c := range []struct{ in, want string }{
		{good + "prose\n", "line 2: "},
		{good + "{}\n", "line 2: not a sample"},
		{`{"thread_id":1}`, "line 1: not a sample"},
		{`{"thread_id":-1,"timestamp":5}`, "line 1: "},
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
		_, err := Read(strings.NewReader(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: error %v, want %q", c.in, err, c.want)
		}
	}
}

func TestSniff(t *testing.T) {
	for _, c := range []struct {
		head string
		want bool
	}{
		{`{"thread_id":1,"timestamp":5}` + "\n", true},
		{`{"thread_id":1,"frames":[["cut off`, true},
		{`{"thread_id":1,` + "\n", false},
		{`{"gotach":"file","start_us":1,"interval_us":2}` + "\n", true},
		{`{"key":"spx"}` + "\n", false},
		{"", false},
	} {
		if got := Sniff([]byte(c.head)); got != c.want {
			t.Errorf("%q: %v", c.head, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"thread_id":1,"timestamp":5,"status":3,"frames":[["f.go","f",1]]}`))
	f.Add([]byte(`{"thread_id":18446744073709551615,"timestamp":0,"frames":null}`))
	f.Add([]byte(`{"gotach":"file","start_us":1}` + "\n" + `{"gotach":"goroutine","id":1,"labels":[{"from_us":1,"labels":{"a":"b"}}]}` + "\n" + `{"gotach":"object","n":1}` + "\n" + `{"gotach":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r reader.Stream
		var err error
		// The writer's buffers and its encoder take some MB whatever the input.
		if grown := testenv.Allocated(func() { r, err = Read(bytes.NewReader(b)) }); grown > uint64(32<<20+500*len(b)) {
			t.Errorf("%d bytes allocated %d", len(b), grown)
		}
		if err != nil {
			return
		}
		for _, err := range r.Samples() {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

func ExampleWrite() {
	r, err := reader.Open("../../../testdata/tachyon/document-v2/emptystack.bin")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	_ = Write(os.Stdout, r)
	// Output:
	// {"thread_id":5,"interpreter_id":0,"timestamp":200,"status":0,"frames":[]}
	// {"thread_id":5,"interpreter_id":0,"timestamp":201,"status":1,"frames":[]}
	// {"thread_id":5,"interpreter_id":0,"timestamp":202,"status":2,"frames":[["e.go","e",1]]}
	// {"thread_id":5,"interpreter_id":0,"timestamp":203,"status":3,"frames":[]}
	// {"thread_id":5,"interpreter_id":0,"timestamp":204,"status":4,"frames":[["e.go","e",1],["e.go","e",1]]}
	// {"thread_id":5,"interpreter_id":0,"timestamp":205,"status":5,"frames":[]}
	// {"thread_id":6,"interpreter_id":0,"timestamp":300,"status":0,"frames":[["e.go","e",1]]}
	// {"thread_id":5,"interpreter_id":0,"timestamp":206,"status":6,"frames":[]}
	// {"thread_id":7,"interpreter_id":0,"timestamp":300,"status":0,"frames":[]}
}

func ExampleRead() {
	s, err := Read(strings.NewReader(`{"thread_id":1,"timestamp":5000,"status":3,"frames":[["f.go","f",1]]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for sample, err := range s.Samples() {
		fmt.Println(sample.Time, s.Frames()[sample.Stack[0]].Func, err)
	}
	// Output: 5000 f <nil>
}
