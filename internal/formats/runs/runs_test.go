package runs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

const ms = time.Millisecond

// source makes a source of JSON lines.
func source(t *testing.T, lines ...string) *stream.Source {
	s := testenv.Must(jsonl.Read(strings.NewReader(strings.Join(lines, "\n") + "\n")))
	return testenv.Must(stream.New([]stream.File{{Stream: s}}, stream.Options{Labels: true, Creators: true}))
}

const (
	file = `{"gotach":"file","start_us":1000000,"interval_us":1000}`
	on   = tachyon.HasGIL | tachyon.OnCPU
)

// sample is a line. The stack is names of functions, innermost first.
func sample(id, at int, status tachyon.Status, stack string) string {
	var frames []string
	for i, name := range strings.Split(stack, " < ") {
		name, line, _ := strings.Cut(name, ":")
		if line == "" {
			line = fmt.Sprint(10 * i)
		}
		place := "main.go"
		if name[0] == '[' {
			place, line = "", "0"
		}
		frames = append(frames, fmt.Sprintf(`[%q,%q,%s]`, place, name, line))
	}
	return fmt.Sprintf(`{"thread_id":%d,"interpreter_id":0,"timestamp":%d,"status":%d,"frames":[%s]}`, id, 1_000_000+at*1000, status, strings.Join(frames, ","))
}

// text describes the runs of a track.
func text(s *Session, t *Track) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d)", t.Name, t.Goroutines)
	if t.Step != 0 {
		fmt.Fprintf(&b, " step %v", t.Step.Round(ms))
	}
	for _, r := range t.Runs {
		var names []string
		for _, f := range s.Path(nil, r.Stack) {
			name := s.Frames[f].Func
			if l := s.Frames[f].Line; l != 0 {
				name += fmt.Sprint(":", l)
			}
			names = append(names, name)
		}
		fmt.Fprintf(&b, "\n%v+%v cpu %v %s %s", r.Begin, r.Wall, r.CPU, s.States[r.State], strings.Join(names, ";"))
	}
	for _, l := range t.Labels {
		fmt.Fprintf(&b, "\n%v-%v %v", l.Begin, l.End, l.Labels)
	}
	return b.String()
}

func TestRuns(t *testing.T) {
	lines := []string{
		file,
		`{"gotach":"session","program":"app"}`,
		`{"gotach":"goroutine","id":7,"created_by":"main.main","created_at":"/x/main.go:9","first_us":0,"last_us":9000,"labels":[{"from_us":2500,"labels":{"a":"b"}},{"from_us":4500,"labels":{}}]}`,
		sample(7, 1, tachyon.GILRequested, "[runnable, not started]"),
		sample(7, 2, on, "main.hash < main.work"),
		sample(7, 3, on, "main.hash:5 < main.work"),
		sample(7, 4, 0, "[chan receive] < main.work"),
		sample(7, 6, 0, "[chan receive] < main.work"),
		sample(7, 7, tachyon.Moved, "[chan receive] < main.work"),
		sample(7, 8, tachyon.HasGIL, "main.hash < main.work"),
	}
	session := func(o Options) string {
		t.Helper()
		o.Limits = Limits{Tracks: 10, Runs: 100}
		s := testenv.Must(New(source(t, lines...), o))
		testenv.Same(t, "tracks, and what is left", fmt.Sprint(len(s.Tracks), s.Left), "1 []")
		return text(s, &s.Tracks[0])
	}
	testenv.NoDiff(t, "", cmp.Diff(`goroutine 7 main.work (1)
0s+1ms cpu 0s runnable [runnable, not started]
1ms+1ms cpu 1ms running main.work:10;main.hash
2ms+1ms cpu 1ms running main.work:10;main.hash:5
3ms+3ms cpu 0s chan receive main.work:10;[chan receive]
6ms+1ms cpu 0s chan receive main.work:10;[chan receive]
7ms+1ms cpu 0s no core main.work:10;main.hash
2ms-4ms map[a:b]`, session(Options{Lines: true, Waits: true})))
	testenv.NoDiff(t, "", cmp.Diff(`goroutine 7 main.work (1)
0s+1ms cpu 0s runnable [runnable, not started]
1ms+2ms cpu 2ms running main.work;main.hash
3ms+4ms cpu 0s chan receive main.work;[chan receive]
7ms+1ms cpu 0s no core main.work;main.hash;[no core]
2ms-4ms map[a:b]`, session(Options{StateFrames: true})))
}

// crowd is lines of three goroutines that one go statement created, of one that another created, and of main.
func crowd() []string {
	lines := []string{file, `{"gotach":"session","program":"app"}`}
	for id := 2; id <= 4; id++ {
		lines = append(lines, fmt.Sprintf(`{"gotach":"goroutine","id":%d,"created_by":"main.main","created_at":"/x/main.go:9","first_us":0,"last_us":9000}`, id))
	}
	lines = append(lines, `{"gotach":"goroutine","id":5,"created_by":"main.main","created_at":"/x/main.go:12","first_us":0,"last_us":9000}`)
	for at := 1; at <= 8; at++ {
		for id := 1; id <= 5; id++ {
			switch {
			case id == 1:
				lines = append(lines, sample(1, at, tachyon.MainThread, "[sync.WaitGroup.Wait] < main.main"))
			case at == 1 && id == 2:
				lines = append(lines, sample(id, at, tachyon.GILRequested, "[runnable, not started]"))
			case (id+at)%2 == 0:
				lines = append(lines, sample(id, at, on, "main.hash < main.work"))
			default:
				lines = append(lines, sample(id, at, tachyon.GILRequested, "[runnable] < main.work"))
			}
		}
	}
	return lines
}

// Groups with few goroutines have tracks of their own; no time is lost.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		names  []string
		left   string
	}{
		{Limits{Tracks: 5, Runs: 100}, []string{"goroutine 1 main.main", "goroutine 2 main.work", "goroutine 3 main.work", "goroutine 4 main.work", "goroutine 5 main.work"}, ""},
		{Limits{Tracks: 4, Runs: 100}, []string{"goroutine 1 main.main", "3 goroutines of main.work, created by main.main at main.go:9", "goroutine 5 main.work"},
			"3 goroutines are added up in one track, in steps of "},
		{Limits{Tracks: 2, Runs: 100}, []string{"2 other goroutines, created in 2 places", "3 goroutines of main.work, created by main.main at main.go:9"}, "5 goroutines are added up in 2 tracks"},
		{Limits{Tracks: 5, Runs: 20}, []string{"goroutine 1 main.main", "3 goroutines of main.work, created by main.main at main.go:9", "goroutine 5 main.work"},
			"3 goroutines are added up in one track, in steps of "},
		{Limits{Tracks: 5, Runs: 100, Frames: 30}, []string{"goroutine 5 main.work"}, "3 goroutines are added up in one track, in steps of "},
		{Limits{Tracks: 5, Runs: 5}, []string{"goroutine 1 main.main"}, "4 goroutines are added up in 2 tracks, by the place where they were created, in steps of "},
	} {
		s := testenv.Must(New(source(t, crowd()...), Options{Limits: c.limits}))
		names := map[string]bool{}
		var wall, cpu time.Duration
		n, grouped := 0, 0
		for i := range s.Tracks {
			track := &s.Tracks[i]
			names[track.Name] = true
			n += track.Goroutines
			before := time.Duration(0)
			for _, r := range track.Runs {
				wall, cpu = wall+r.Wall, cpu+r.CPU
				testenv.FailIf(t, r.Begin < before, "%v: %s is not in order", c.limits, track.Name)
				before = r.Begin
			}
			if track.Step != 0 {
				grouped += len(track.Runs)
			}
		}
		for _, name := range c.names {
			testenv.Same(t, fmt.Sprint(c.limits, ": ", name, " of ", names), names[name], true)
		}
		testenv.Same(t, fmt.Sprint(c.limits, ": time, CPU time and goroutines"), fmt.Sprint(wall, cpu, n), "40ms 16ms 5")
		got := strings.Join(s.Left, "; ")
		testenv.FailIf(t, !strings.Contains(got, c.left) || got != "" && c.left == "", "%v: left %q, want %q", c.limits, got, c.left)
		testenv.FailIf(t, grouped > c.limits.Runs || len(s.Tracks) > c.limits.Tracks, "%v: %d runs of groups, %d tracks", c.limits, grouped, len(s.Tracks))
	}
}

// Steps have the time of their goroutines, and the numbers of goroutines are those at each time.
func TestSteps(t *testing.T) {
	s := testenv.Must(New(source(t, crowd()...), Options{Limits: Limits{Tracks: 4, Runs: 18}}))
	var got string
	for i := range s.Tracks {
		if s.Tracks[i].Step != 0 {
			got = text(s, &s.Tracks[i])
		}
	}
	testenv.Same(t, "the group", strings.SplitN(got, "\n", 2)[0], "3 goroutines of main.work, created by main.main at main.go:9 (3) step 1ms")
	mean := func(list []float64) (sum float64) {
		for _, x := range list {
			sum += x
		}
		return sum / float64(len(list))
	}
	testenv.Within(t, "goroutines on average", mean(s.Alive), 4.98, 5)
	testenv.Within(t, "runnable ones", mean(s.Runnable), 1.99, 2)
}

func TestLevel(t *testing.T) {
	l := newLevel(levelParts*ms - 1)
	l.add(0, ms/2)
	l.add(ms/4, 3*ms+ms/4)
	testenv.NoDiff(t, "", cmp.Diff([]float64{1.25, 1, 1, 0.25, 0}, l.means()[:5]))
}
