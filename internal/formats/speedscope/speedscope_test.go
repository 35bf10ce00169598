package speedscope

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/internal/formats/runs"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "write testdata")

func file(t *testing.T, o runs.Options, lines ...string) (text []byte, left []string) {
	s := testenv.Must(jsonl.Read(strings.NewReader(strings.Join(lines, "\n") + "\n")))
	src := testenv.Must(stream.New([]stream.File{{Stream: s}}, stream.Options{Creators: true}))
	var out bytes.Buffer
	left = testenv.Must(write(&out, src, o))
	return out.Bytes(), left
}

func TestWrite(t *testing.T) {
	lines := []string{`{"gotach":"file","start_us":1000000,"interval_us":1000}`, `{"gotach":"session","program":"</script>\""}`}
	for _, s := range []string{
		`1,"interpreter_id":0,"timestamp":1001000,"status":3,"frames":[["/x/<a>.go","main.Work[...]",12],["/x/<a>.go","main.main",3]]`,
		`1,"interpreter_id":0,"timestamp":1002000,"status":3,"frames":[["/x/<a>.go","main.Work[...]",13],["/x/<a>.go","main.main",3]]`,
		`1,"interpreter_id":0,"timestamp":1005000,"status":1,"frames":[["/x/<a>.go","main.Work[...]",13],["/x/<a>.go","main.main",3]]`,
		`2,"interpreter_id":0,"timestamp":1009000,"status":0,"frames":[["","[select]",0],["/x/<a>.go","main.main",3]]`,
		`3,"interpreter_id":0,"timestamp":1009000,"status":0,"frames":[]`,
	} {
		lines = append(lines, `{"thread_id":`+s+`}`)
	}
	text, left := file(t, options, lines...)
	testenv.FailIf(t, len(left) > 0 || !json.Valid(text) || !Sniff(text), "left %v, JSON %v, Sniff %v", left, json.Valid(text), Sniff(text))
	testenv.Golden(t, "testdata/example.speedscope.json", string(text), *update)
}

// Deep stacks make groups of goroutines, so that the file is not large. Their time is the same.
func TestDeep(t *testing.T) {
	lines := []string{`{"gotach":"file","start_us":1000000,"interval_us":1000}`, `{"gotach":"session","program":"app"}`}
	for at := 1; at <= 400; at++ {
		var frames []string
		for depth := range 100 {
			frames = append(frames, fmt.Sprintf(`["m.go","main.f%d",1]`, depth*(1+at%2)))
		}
		lines = append(lines, fmt.Sprintf(`{"thread_id":1,"interpreter_id":0,"timestamp":%d,"status":3,"frames":[%s]}`, 1_000_000+at*1000, strings.Join(frames, ",")))
	}
	o := options
	o.Frames = 10_000
	text, left := file(t, o, lines...)
	testenv.Has(t, "left", strings.Join(left, "; "), "1 goroutine is added up in one track, in steps of ")
	var f struct {
		Name     string
		Profiles []struct {
			Samples              [][]int
			Weights              []int
			StartValue, EndValue int
		}
	}
	testenv.OK(t, json.Unmarshal(text, &f))
	testenv.Has(t, "the name", f.Name, left[0])
	frames, weight := 0, 0
	p := &f.Profiles[0]
	for i := range p.Samples {
		frames += len(p.Samples[i])
		weight += p.Weights[i]
	}
	testenv.FailIf(t, frames > o.Frames || weight != 400e6 || p.EndValue-p.StartValue != weight, "%d frames, weight %d from %d to %d", frames, weight, p.StartValue, p.EndValue)
}
