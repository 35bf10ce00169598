package findings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// find returns what is found in a file. It reads no source text.
func find(t testing.TB, path string) []Finding { return findWith(t, path, nil) }

func findWith(t testing.TB, path string, read func(string) *source.File) []Finding {
	t.Helper()
	f := must(reader.Open(path))(t)
	defer f.Close()
	o := report.Options{Series: true}
	so := o.Stream()
	so.Unselected = true
	src := must(stream.New([]stream.File{{Stream: f}}, so))(t)
	survey := must(report.NewSurvey(src, o, read))(t)
	locks := must(survey.Locks())(t)
	requests := must(survey.FindRequests())(t)
	return must(Of(Input{Survey: survey, Locks: locks, Requests: requests, Files: filepath.Base(path)}))(t)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		testenv.OK(t, err)
		return v
	}
}

// The recorded sessions of package analyze have what is planted in them as their first finding.
func TestSessions(t *testing.T) {
	for name, want := range map[string]string{
		"computes":     "lock main.(*store).compute",
		"refresher":    "lock main.(*store).lookUp",
		"sleeps":       "lock main.(*store).sleepy",
		"slow-reader":  "lock main.(*store).write",
		"nested":       "lock main.(*store).sleepy",
		"leaks":        "leak main.leakyReply",
		"leaky-server": "leak main.leakedByRequest",
		"fan-out":      "lock main.fanOut.func3",
		"rendezvous":   "channel main.(*planted).produce",
	} {
		list := find(t, "../testdata/sessions/"+name+".tach")
		if len(list) == 0 {
			t.Errorf("%s: nothing, want %s", name, want)
			continue
		}
		if got := list[0].Kind + " " + list[0].Function; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		for _, x := range list {
			if !slices.Contains(Kinds, x.Kind) || x.Text == "" || !strings.HasPrefix(x.Command, "gotach ") || !strings.Contains(x.Command, name+".tach") || len(x.Evidence) > 5 {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
}

// The recordings of the programs in testdata/causes at the root of the repository: what is planted is the first finding, healthy
// ones have none, and each sentence is as in causes.findings. TestMeasureFindings in bench records them anew, which is needed
// after a change of a program: its text is read.
func TestCauses(t *testing.T) {
	const programs = "../../../testdata/causes"
	below := testenv.Must(source.Below([]string{"../../../testdata"})) // names in the recordings are those of -trimpath
	var all strings.Builder
	for line := range strings.Lines(string(testenv.Must(os.ReadFile(programs + "/causes.txt")))) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "#" {
			continue
		}
		list := findWith(t, "testdata/causes/"+f[0]+".tach", below.Read)
		fmt.Fprintf(&all, "%s\n", f[0])
		for _, x := range list {
			note := ""
			if x.Note {
				note = ", a note"
			}
			fmt.Fprintf(&all, "\t%s, %.0f %%, %s%s: %s\n", x.Kind, 100*x.Share, x.Sure, note, x.Text)
			for _, e := range x.Evidence {
				fmt.Fprintf(&all, "\t\t%s\n", e)
			}
		}
		if f[1] == "healthy" {
			if Problems(list) > 0 {
				t.Errorf("%s is healthy: %+v", f[0], list)
			}
			continue
		}
		rank := slices.IndexFunc(list, func(x Finding) bool {
			return slices.Contains(strings.Split(f[1], ","), x.Kind) && (x.Function == "" || slices.Contains(f[2:], x.Function))
		})
		if rank != 0 {
			t.Errorf("%s: want %s: %+v", f[0], f[1], list)
		}
	}
	testenv.Golden(t, "testdata/causes.findings", all.String(), *analyzetest.Update)
}

// serialOf returns what is said of goroutines that compute, one at a time, for three of four ticks. turn says whose turn a tick is.
func serialOf(t *testing.T, goroutines uint64, turn func(tick uint64) uint64) []Finding {
	t.Helper()
	const length = 4 * analyzetest.OneSecond
	r := analyzetest.Record(t)
	serve, wait := analyzetest.Place("main.serve", 7), analyzetest.Wait("chan receive")
	for g := uint64(1); g <= goroutines; g++ {
		r.Goroutine(tachyon.Goroutine{ID: g, CreatedBy: "main.main"})
	}
	for tick := uint64(0); tick < length/10_000; tick++ {
		for g := uint64(1); g <= goroutines; g++ {
			if tick%4 != 0 && turn(tick)%goroutines == g-1 {
				r.Add(g, tick*10_000, analyzetest.Running, analyzetest.Place("main.compute", 9), serve)
			} else {
				r.Add(g, tick*10_000, 0, wait, serve)
			}
		}
	}
	f := r.Finish(tachyon.Session{Source: "native", GOMAXPROCS: 4, Duration: 4 * time.Second})
	o := report.Options{Series: true}
	so := o.Stream()
	so.Unselected = true
	src := must(stream.New([]stream.File{{Stream: f}}, so))(t)
	survey := must(report.NewSurvey(src, o, nil))(t)
	list := must(Of(Input{Survey: survey, Locks: must(survey.Locks())(t), Files: "x.tach"}))(t)
	return slices.DeleteFunc(list, func(x Finding) bool { return x.Kind != Serial })
}

// Eight goroutines that compute in turns are not one that computes, also if what they use adds up to less than a core.
func TestSerial(t *testing.T) {
	if list := serialOf(t, 8, func(uint64) uint64 { return 2 }); len(list) != 1 || list[0].Cost < 2900*time.Millisecond || list[0].Function != "main.compute" {
		t.Errorf("one of eight goroutines computes: %+v", list)
	}
	if list := serialOf(t, 8, func(tick uint64) uint64 { return tick / 4 }); len(list) > 0 {
		t.Errorf("eight goroutines compute in turns: %+v", list)
	}
}
