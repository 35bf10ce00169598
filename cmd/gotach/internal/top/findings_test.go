package top

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/locks"
	src "github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A window has the finding that is planted in a program as its first one, as the file has. By day it is a quarter of the programs: TestCauses of package
// findings has all.
func TestCauses(t *testing.T) {
	testenv.Again(t)
	testenv.Long(t)
	const root = "../../../.."
	below := testenv.Must(src.Below([]string{root + "/testdata"})) // names in the recordings are those of -trimpath
	for i, c := range analyzetest.Causes(t, root) {
		if i%testenv.Times(4, 1) > 0 {
			continue
		}
		w := open(t, filepath.Join(root, "internal/analyze/findings/testdata/causes", c.Name+".tach"))
		l := look(t, w, Query{Window: 10 * time.Second, Findings: true, Locks: locks.Options{Source: below.Read}})
		switch {
		case c.Healthy() && len(l.Findings) > 0:
			t.Errorf("%s is healthy: %+v", c.Name, l.Findings)
		case !c.Healthy() && (len(l.Findings) == 0 || !c.Is(l.Findings[0].Kind, l.Findings[0].Function)):
			t.Errorf("%s: want %v: %+v", c.Name, c.Kinds, l.Findings)
		}
	}
}

// What the quota took is known second by second while the program runs. In a finished file it is known of the whole, which tells
// nothing of a window that is much shorter.
func TestQuota(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	f := create(t, path, start, 0)
	w := open(t, path)
	counts := tachyon.Counts{TicksAsked: 20_000, TicksReached: 20_000}
	for second := 1; second <= 20; second++ {
		for ms := 1000*second - 999; ms <= 1000*second; ms++ {
			f.add(1, ms, onCPU, "main.draw", "main.main")
		}
		if second > 10 {
			counts.Throttled += 500 * time.Millisecond
			counts.ThrottledPeriods += 6
		}
		must(f.w.WriteRecords(&tachyon.Records{Progress: &tachyon.Progress{Duration: time.Duration(second) * time.Second, Source: "native", Counts: counts}}))
		must(w.Poll(t.Context()))
	}
	found := func(w *Watch, from, to int) time.Duration { // what it cost
		l := lookOnly(t, w, Query{At: time.UnixMicro(start + int64(to)*1e6), Window: time.Duration(to-from) * time.Second, Findings: true})
		for _, x := range l.Findings {
			if x.Kind == findings.Quota {
				return x.Cost
			}
		}
		return 0
	}
	testenv.Same(t, "before the quota was used up", found(w, 2, 9), 0)
	testenv.Same(t, "in the window", found(w, 8, 16), 3*time.Second)
	s := f.session(0)
	s.Duration, s.Counts = 20_050*time.Millisecond, counts // somewhat after the last sample
	must(f.w.AddMetadata(tachyon.KindSession, s))
	must(f.w.Close())
	w = open(t, path)
	must(w.Poll(t.Context()))
	testenv.Same(t, "in the finished file", found(w, 0, 20).Round(100*time.Millisecond), 5*time.Second)
	testenv.Same(t, "in a part of the finished file", found(w, 8, 16), 0)
}

// While the ends of goroutines of a young session are not known, nothing is said of it.
func TestYoung(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	f := create(t, path, start, 0)
	w := open(t, path)
	for _, seconds := range [][2]int{{0, 3}, {3, 5}} {
		f.seconds(seconds[0], seconds[1])
		l := look(t, w, Query{Window: 10 * time.Second, Findings: true})
		testenv.Same(t, seconds, l.Findings != nil, seconds[1] == 5)
	}
}
