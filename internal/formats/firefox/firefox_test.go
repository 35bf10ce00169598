package firefox

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/internal/formats/runs"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "write testdata")

// A decoded is a file, as far as the tests look at it.
type decoded struct {
	Meta struct {
		Extra []struct {
			Entries []struct{ Label, Value string }
		}
	}
	Threads []struct {
		Name    string
		Samples struct {
			Time, Weight   []float64
			ThreadCPUDelta []int
		}
		Markers struct {
			Name []int
		}
	}
}

// file writes lines of samples as a file.
func file(t *testing.T, o runs.Options, lines ...string) (text []byte, d decoded, left []string) {
	t.Helper()
	s := testenv.Must(jsonl.Read(strings.NewReader(strings.Join(lines, "\n") + "\n")))
	src := testenv.Must(stream.New([]stream.File{{Stream: s}}, stream.Options{Labels: true, Creators: true}))
	var out bytes.Buffer
	left = testenv.Must(write(&out, src, o))
	testenv.OK(t, json.Unmarshal(out.Bytes(), &d))
	for _, th := range d.Threads {
		testenv.FailIf(t, !slices.IsSorted(th.Samples.Time), "%s: samples are not in order: %v", th.Name, th.Samples.Time)
	}
	return out.Bytes(), d, left
}

// example is lines of a session with names that need escapes, labels, and waits that follow one another.
func example() []string {
	lines := []string{
		`{"gotach":"file","start_us":1000000,"interval_us":1000}`,
		`{"gotach":"session","program":"/bin/app","goos":"linux","goarch":"amd64","go_version":"go1.26","host":"box","pid":4711,"start":"2026-02-03T04:05:06Z"}`,
		`{"gotach":"goroutine","id":7,"created_by":"main.main","created_at":"/x/main.go:9","first_us":0,"last_us":9000,"labels":[{"from_us":2500,"labels":{"a":"</script>","b":"\"\u2028"}},{"from_us":4500,"labels":{"a":"c"}}]}`,
	}
	add := func(id, at, status int, stack string) {
		lines = append(lines, fmt.Sprintf(`{"thread_id":%d,"interpreter_id":0,"timestamp":%d,"status":%d,"frames":[%s]}`, id, 1_000_000+at*1000, status, stack))
	}
	const work, wait = `["/x/<main>.go","main.Work[...]",12],["/x/<main>.go","main.main",3]`, `["","[chan receive]",0],`
	add(1, 1, 32, `["","[sync.WaitGroup.Wait]",0],["/x/<main>.go","main.main",5]`)
	add(1, 9, 32, `["","[sync.WaitGroup.Wait]",0],["/x/<main>.go","main.main",5]`)
	add(7, 1, 3, work)
	add(7, 2, 3, strings.Replace(work, "12", "13", 1))
	add(7, 4, 0, wait+work)
	add(7, 5, 64, wait+work) // has run in between
	add(7, 6, 1, work)
	return lines
}

// TestPeerFirefox reads such a file with the viewer's own code.
func TestWrite(t *testing.T) {
	text, _, left := file(t, options, example()...)
	testenv.Same(t, "left out", len(left), 0)
	testenv.Same(t, "recognized", Sniff(text[:1024]), true)
	testenv.Golden(t, "testdata/example.firefox.json", string(text), *update)
}

// Goroutines of one creator share a thread if there are too many, with their times and in order.
func TestGroups(t *testing.T) {
	lines := []string{`{"gotach":"file","start_us":1000000,"interval_us":1000}`, `{"gotach":"session","program":"app"}`}
	for id := 1; id <= 20; id++ {
		for at := 1; at <= 50; at++ {
			status, stack := 3, `["m.go","main.work",1]`
			if (id+at/5)%2 == 0 {
				status, stack = 0, `["","[select]",0],["m.go","main.work",1]`
			}
			lines = append(lines, fmt.Sprintf(`{"thread_id":%d,"interpreter_id":0,"timestamp":%d,"status":%d,"frames":[%s]}`, id, 1_000_000+at*1000, status, stack))
		}
	}
	o := options
	o.Tracks, o.Runs = 10, 60
	_, d, left := file(t, o, lines...)
	testenv.Same(t, "threads", fmt.Sprint(len(d.Threads), d.Threads[0].Name, len(d.Threads[0].Markers.Name)), "120 goroutines of main.work0")
	testenv.Has(t, "left", strings.Join(left, "; "), "20 goroutines are added up in one track, in steps of ", "; their waits and labels have no markers")
	testenv.Has(t, "what the file says", fmt.Sprint(d.Meta.Extra), "{Left out "+strings.Join(left, "; ")+"}")
	weight, cpu := 0.0, 0
	s := &d.Threads[0].Samples
	for i := range s.Weight {
		weight += s.Weight[i]
		cpu += s.ThreadCPUDelta[i]
	}
	testenv.Within(t, "ms", weight, 999.999, 1000.001)
	testenv.Same(t, "ns on CPU", cpu, 500e6)
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 1: "0.000001", 1_000_000: "1", 1_500_000: "1.5", 12_345_678: "12.345678", 1_000_100: "1.0001"} {
		testenv.Same(t, d, string(appendMillis(nil, d)), want)
	}
}

// Times that jump back and forth, as in damaged files, do not make the file large.
func TestJumps(t *testing.T) {
	lines := []string{`{"gotach":"file","start_us":1000000,"interval_us":1000}`, `{"gotach":"session","program":"app"}`}
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf(`{"thread_id":1,"interpreter_id":0,"timestamp":%d,"status":3,"frames":[["m.go","main.f%d",1]]}`, 1_001_000+i%2*100_000_000, i%4))
	}
	_, d, _ := file(t, options, lines...)
	testenv.Within(t, "samples", len(d.Threads[0].Samples.Time), 2000, 8000)
}
