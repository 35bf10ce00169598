package nytprof_test

import (
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/nytprof"
)

// busy works, waits and sorts for a while.
func busy(d time.Duration) {
	var wg sync.WaitGroup
	ch := make(chan int)
	wg.Add(2)
	go func() {
		defer wg.Done()
		for range ch {
			n := make([]int, 30_000)
			for i := range n {
				n[i] = i * 7919 % 30_011
			}
			sort.Slice(n, func(i, j int) bool { return n[i] < n[j] })
		}
	}()
	go func() {
		defer wg.Done()
		for end := time.Now().Add(d); time.Now().Before(end); {
			ch <- 1
			time.Sleep(time.Millisecond)
		}
		close(ch)
	}()
	wg.Wait()
}

// A profile of this test has the same times in Perl as in gotach's report, and
// its tools show this file.
func TestLiveProfileInPerl(t *testing.T) {
	tools := testenv.NYTProf(t)
	dir := t.TempDir()
	tach, out := filepath.Join(dir, "x.tach"), filepath.Join(dir, "nytprof.out")
	s, err := profiler.Open(profiler.Output(tach))
	if err != nil {
		t.Fatal(err)
	}
	busy(500 * time.Millisecond)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	in, err := formats.Open(tach, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Convert(out, "", formats.Options{}); err != nil {
		t.Fatal(err)
	}
	perl := nytprof.LoadInPerl(t, tools, out)
	compareSubs(t, in, perl)
	compareLines(t, in, perl)

	html := filepath.Join(nytprof.RunTools(t, tools, out, nytprof.Progress), "html")
	pages, err := filepath.Glob(filepath.Join(html, "*nytprof-live_test-go-*-line.html"))
	if err != nil || len(pages) != 1 {
		t.Fatal(pages, err)
	}
	page, err := os.ReadFile(pages[0])
	if err != nil || !strings.Contains(string(page), "sort.Slice(n, func(i, j int) bool { return n[i] &lt; n[j] })") {
		t.Errorf("%s has not its source, %v", pages[0], err)
	}
	svg, err := os.ReadFile(filepath.Join(html, "all_stacks_by_time.svg"))
	if err != nil || !strings.Contains(string(svg), ">nytprof_test::busy") && !strings.Contains(string(svg), "nytprof_test::busy") {
		t.Errorf("a flame graph of %d bytes without busy, %v", len(svg), err)
	}
}

// near allows a tick of 100 ns a sample.
func near(seconds float64, d time.Duration, samples int64) bool {
	return math.Abs(seconds-d.Seconds()) <= 1e-7*float64(samples+1)
}

func compareSubs(t *testing.T, in *formats.Input, perl nytprof.PerlData) {
	report, err := in.Report(profile.ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	self, total := make(map[string]time.Duration), make(map[string]time.Duration)
	for _, row := range report.Rows {
		if row.Name == "runtime.goexit" {
			continue // the caller of the roots, and no sub that was called
		}
		self[nytprof.PerlName(row.Name)] += row.Self
		total[nytprof.PerlName(row.Name)] += row.Total
	}
	for _, sub := range perl.Subs {
		if sub.Name == "runtime::goexit" {
			continue
		}
		if !near(sub.Excl, self[sub.Name], report.Samples) || !near(sub.Incl, total[sub.Name], report.Samples) {
			t.Errorf("%s: exclusive %g, inclusive %g, the report has %v, %v", sub.Name, sub.Excl, sub.Incl, self[sub.Name], total[sub.Name])
		}
		delete(self, sub.Name)
	}
	if len(self) > 0 || len(perl.Subs) < 3 {
		t.Errorf("of %d rows perl does not know %v", len(report.Rows), self)
	}
}

func compareLines(t *testing.T, in *formats.Input, perl nytprof.PerlData) {
	report, err := in.Report(profile.ReportOptions{By: profile.ByLine})
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		file string
		line int
	}
	self := make(map[place]time.Duration)
	var unplaced time.Duration
	for _, row := range report.Rows {
		if row.File == "" {
			unplaced += row.Self
		} else if row.Self > 0 {
			self[place{row.File, max(row.Line, 1)}] += row.Self // the race detector's functions have line 0
		}
	}
	var inPerl float64
	for _, f := range perl.Files {
		for line, got := range f.Lines {
			if f.Name == "(no source)" {
				inPerl += got.Seconds
				continue
			}
			at := place{f.Name, int(line)}
			if !near(got.Seconds, self[at], report.Samples) {
				t.Errorf("%v: %g s, the report has %v", at, got.Seconds, self[at])
			}
			delete(self, at)
		}
	}
	if !near(inPerl, unplaced, report.Samples) {
		t.Errorf("waiting: %g s, the report has %v", inPerl, unplaced)
	}
	if len(self) > 0 || unplaced == 0 {
		t.Errorf("perl does not know %v; waiting %v", self, unplaced)
	}
}
