package reader

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

const files = "../testdata/compatibility/v0/"

// Samples of a goroutine follow one another, also from file to file, and what they say does not contradict itself.
func TestSamples(t *testing.T) {
	for _, names := range [][]string{{"native.tach"}, {"portable.tach"}, {"uncompressed.tach"}, {"cpython315.bin"}, {"rotated.2.tach", "rotated.1.tach"}} {
		var paths []string
		for _, name := range names {
			paths = append(paths, files+name)
		}
		p := testenv.Must(Open(paths...))
		end := map[uint64]time.Time{}
		var samples, same, labelled, cpu int
		for s := range testenv.All(t, p.Samples()) {
			testenv.StopIf(t, len(s.Stack()) == 0, "%v: no stack in %+v", names, s)
			if s.State == "not seen" {
				testenv.FailIf(t, !s.Begin.IsZero() || !s.End.IsZero() || s.Waits || s.Weight <= 0, "%v: %+v", names, s)
				continue
			}
			samples++
			last := end[s.Goroutine]
			if gap := s.Begin.Sub(last); s.End.Sub(s.Begin) != s.Weight || !last.IsZero() && (gap < 0 || gap > 0 && s.Label("worker") != "") {
				t.Fatalf("%v: goroutine %d from %v to %v, %v; the sample before ends at %v", names, s.Goroutine, s.Begin, s.End, s.Weight, last)
			}
			end[s.Goroutine] = s.End
			if s.Same {
				same++
			}
			if s.CPU() > 0 {
				cpu++
			}
			if s.Label("worker") != "" {
				labelled++
				testenv.Same(t, "label", s.Labels()["worker"], s.Label("worker"))
			}
			testenv.FailIf(t, s.CPU() > 0 && s.Waits || s.Same && !s.Waits, "%v: a sample on CPU waits: %+v", names, s)
		}
		native := names[0] != "cpython315.bin" && names[0] != "portable.tach"
		testenv.FailIf(t, samples < 100 || same < 20 || cpu < 5 || native && (labelled < 20 || p.Session().Service != "shop"), "%v: %d samples, %d of the same wait, %d on CPU, %d with labels", names, samples, same, cpu, labelled)
		testenv.OK(t, p.Close())
	}
}

func TestOpenErrors(t *testing.T) {
	for _, paths := range [][]string{nil, {files + "native.tach", filepath.Join(t.TempDir(), "none")}, {files + "native.tach.json"}} {
		if p, err := Open(paths...); err == nil {
			p.Close()
			t.Errorf("%v can be opened", paths)
		}
	}
}
