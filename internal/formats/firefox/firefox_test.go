package firefox

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
		PreprocessedProfileVersion int
		Categories                 []struct{ Name, Color string }
		Extra                      []struct {
			Entries []struct{ Label, Value string }
		}
	}
	Counters []struct {
		Samples struct {
			Time, Count []float64
		}
	}
	Threads []struct {
		Name, PID, TID string
		IsMainThread   bool
		Samples        struct {
			Time, Weight   []float64
			ThreadCPUDelta []int
			WeightType     string
		}
		Markers struct {
			Name               []int
			StartTime, EndTime []float64
		}
	}
	Shared struct {
		StackTable struct{ PrefixOffset []int }
	}
}

// file writes lines of samples as a file.
func file(t *testing.T, o runs.Options, lines ...string) (text []byte, d decoded, left []string) {
	t.Helper()
	s := testenv.Must(jsonl.Read(strings.NewReader(strings.Join(lines, "\n") + "\n")))
	src := testenv.Must(stream.New([]stream.File{{Stream: s}}, stream.Options{Labels: true, Creators: true}))
	var out bytes.Buffer
	left = testenv.Must(write(&out, src, o))
	var all any
	testenv.OK(t, errors.Join(json.Unmarshal(out.Bytes(), &d), json.Unmarshal(out.Bytes(), &all)))
	columns(t, "", all)
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

func TestWrite(t *testing.T) {
	text, d, left := file(t, options, example()...)
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if !Sniff(text[:1024]) {
		t.Error("not recognized")
	}
	verify(t, &d)
	testenv.Golden(t, "testdata/example.firefox.json", string(text), *update)
}

// columns fails unless all columns of each table of a file are as long as it says.
func columns(t *testing.T, path string, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			columns(t, path, e)
		}
	case map[string]any:
		for name, e := range v {
			if list, ok := e.([]any); ok && v["length"] != nil && v["length"] != float64(len(list)) {
				t.Errorf("%s.%s has %d entries, the table %v", path, name, len(list), v["length"])
			}
			columns(t, path+"."+name, e)
		}
	}
}

// verify checks what the viewers demand of a file.
func verify(t *testing.T, d *decoded) {
	t.Helper()
	if d.Meta.PreprocessedProfileVersion != 66 || d.Meta.Categories[0].Name != "Other" || d.Meta.Categories[0].Color != "grey" {
		t.Errorf("meta %+v", d.Meta)
	}
	tids := map[string]bool{}
	for i, th := range d.Threads {
		if tids[th.TID] || th.PID != d.Threads[0].PID || th.IsMainThread != (i == 0) {
			t.Errorf("thread %d: pid %s, tid %s, main %v", i, th.PID, th.TID, th.IsMainThread)
		}
		tids[th.TID] = true
		s := &th.Samples
		if s.WeightType != "tracing-ms" {
			t.Errorf("%s: weights are %s", th.Name, s.WeightType)
		}
		for i := 1; i < len(s.Time); i++ {
			if s.Time[i] < s.Time[i-1] {
				t.Errorf("%s: sample %d is at %v after %v", th.Name, i, s.Time[i], s.Time[i-1])
			}
		}
		m := &th.Markers
		ends := map[int]float64{}
		for i := range m.Name {
			if m.StartTime[i] < ends[m.Name[i]] || m.EndTime[i] < m.StartTime[i] {
				t.Errorf("%s: markers of one name overlap", th.Name)
			}
			ends[m.Name[i]] = m.EndTime[i]
		}
	}
	for i, c := range d.Counters {
		level := 0.0
		for _, change := range c.Samples.Count {
			level += change
		}
		if level < -1e-9 || level > 1e-9 {
			t.Errorf("counter %d ends at %v", i, level)
		}
	}
	for i, offset := range d.Shared.StackTable.PrefixOffset {
		if offset < 0 || offset > i {
			t.Errorf("stack %d has prefix offset %d", i, offset)
		}
	}
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
	verify(t, &d)
	if len(d.Threads) != 1 || d.Threads[0].Name != "20 goroutines of main.work" || len(d.Threads[0].Markers.Name) > 0 {
		t.Fatalf("%d threads, %+v", len(d.Threads), d.Threads)
	}
	if got := strings.Join(left, "; "); !strings.HasPrefix(got, "20 goroutines are added up in one track, in steps of ") || !strings.HasSuffix(got, "; their waits and labels have no markers") {
		t.Errorf("left %q", got)
	}
	found := false
	for _, e := range d.Meta.Extra[0].Entries {
		found = found || e.Label == "Left out" && e.Value == strings.Join(left, "; ")
	}
	if !found {
		t.Errorf("the file does not say what is left out: %+v", d.Meta.Extra)
	}
	weight, cpu := 0.0, 0
	s := &d.Threads[0].Samples
	for i := range s.Weight {
		weight += s.Weight[i]
		cpu += s.ThreadCPUDelta[i]
	}
	if weight < 999.999 || weight > 1000.001 || cpu != 500e6 {
		t.Errorf("weight %v ms, CPU %v ns; want 1000 ms, 500e6 ns", weight, cpu)
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 1: "0.000001", 1_000_000: "1", 1_500_000: "1.5", 12_345_678: "12.345678", 1_000_100: "1.0001"} {
		if got := string(appendMillis(nil, d)); got != want {
			t.Errorf("%d ns is %s, want %s", d, got, want)
		}
	}
}

// Times that jump back and forth, as in damaged files, do not make the file large.
func TestJumps(t *testing.T) {
	lines := []string{`{"gotach":"file","start_us":1000000,"interval_us":1000}`, `{"gotach":"session","program":"app"}`}
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf(`{"thread_id":1,"interpreter_id":0,"timestamp":%d,"status":3,"frames":[["m.go","main.f%d",1]]}`, 1_001_000+i%2*100_000_000, i%4))
	}
	_, d, _ := file(t, options, lines...)
	verify(t, &d)
	if n := len(d.Threads[0].Samples.Time); n < 2000 || n > 8000 {
		t.Errorf("%d samples", n)
	}
}
