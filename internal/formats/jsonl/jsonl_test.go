package jsonl

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
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
	r := testenv.Must(Read(bytes.NewReader(in.Bytes())))
	var got bytes.Buffer
	testenv.OK(t, Write(&got, source(r)))
	if got.String() != in.String() {
		t.Error("not what went in")
	}
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
		if grown := testenv.Allocated(func() { r, err = Read(bytes.NewReader(b)) }); grown > uint64(32<<20+500*len(b)) {
			t.Errorf("%d bytes allocated %d", len(b), grown)
		}
		if err != nil {
			return
		}
		for _, err := range r.Samples() {
			testenv.OK(t, err)
		}
	})
}
