package perlnytprof

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/nytprof"
)

// figures are the sums of a profile, in nanoseconds.
type figures struct {
	self, total map[string]float64 // by function
	line        map[profile.Frame]float64
	counts      map[profile.Frame]int64 // samples
	records     map[string]int64        // by function: samples, for what rounding may do
	all         float64
}

// figuresOf sums p up. Goexit is left out, as it is in NYTProf files.
func figuresOf(p *profile.Profile) figures {
	f := figures{make(map[string]float64), make(map[string]float64), make(map[profile.Frame]float64), make(map[profile.Frame]int64), make(map[string]int64), 0}
	for _, r := range p.Records {
		f.all += float64(r.Wall)
		seen := map[string]bool{"runtime.goexit": true}
		for i, id := range r.Stack {
			fr := p.Frames[id]
			if !seen[fr.Func] {
				f.total[fr.Func] += float64(r.Wall)
				f.records[fr.Func] += r.Count
			}
			seen[fr.Func] = true
			if i == 0 {
				f.self[fr.Func] += float64(r.Wall)
				fr.Func = ""
				f.line[fr] += float64(r.Wall)
				f.counts[fr] += r.Count
			}
		}
	}
	return f
}

// goldenDir has files of perl programs.
const goldenDir = "../../../nytprof/testdata/"

// goldens returns files of perl programs.
func goldens(t testing.TB) []string {
	return testenv.Files(t, goldenDir+"*.nytprof", 10)
}

// cutOff is the golden whose process was killed.
const cutOff = goldenDir + "c17-killed.nytprof"

func load(t testing.TB, file string) *nytprof.Data {
	t.Helper()
	f := testenv.Must(os.Open(file))
	defer f.Close()
	return testenv.Must(nytprof.Load(f))
}

func roundTrip(t testing.TB, p *profile.Profile, o Options) *profile.Profile {
	t.Helper()
	var file bytes.Buffer
	testenv.OK(t, Write(&file, p, o))
	if c, err := nytprof.Verify(bytes.NewReader(file.Bytes())); err != nil || len(c.Warnings) > 0 {
		t.Errorf("%v %q", err, c.Warnings)
	}
	return testenv.Must(Read(&file))
}

func TestRoundTrip(t *testing.T) {
	want := workload(t)
	got := roundTrip(t, want, Options{})
	a, b := figuresOf(want), figuresOf(got)
	if d := a.all - b.all; math.Abs(d) > 100*float64(len(want.Records)) {
		t.Errorf("all: %g ns, want %g", b.all, a.all)
	}
	for name := range a.total {
		tolerance := 100 * float64(a.records[name]+1)
		if math.Abs(a.self[name]-b.self[name]) > tolerance || math.Abs(a.total[name]-b.total[name]) > tolerance {
			t.Errorf("%s: self %g, total %g, want %g, %g", name, b.self[name], b.total[name], a.self[name], a.total[name])
		}
	}
	for at, ns := range a.line {
		if math.Abs(ns-b.line[at]) > 100*float64(len(want.Records)) {
			t.Errorf("%v: %g ns, want %g", at, b.line[at], ns)
		}
	}
	if !got.Start.Equal(want.Start) || got.Duration != want.Duration || got.Interval != want.Interval ||
		got.Goroutines != want.Goroutines || got.Program != want.Program || got.Samples != want.Samples-1 { // one took no time
		t.Errorf("got %v %v %v %d %q %d", got.Start, got.Duration, got.Interval, got.Goroutines, got.Program, got.Samples)
	}
	for _, r := range got.Records {
		if got.Frames[r.Stack[0]].Func == "[chan receive]" && r.State != "chan receive" {
			t.Errorf("state %q", r.State)
		}
	}
}

// Only what Source returns is in a file. With NoSource Perl's tools look for the files themselves.
func TestSource(t *testing.T) {
	for i, o := range []Options{{Source: workloadSource}, {}, {NoSource: true}} {
		var file bytes.Buffer
		testenv.OK(t, Write(&file, workload(t), o))
		lines, texts := 0, 0
		for c, err := range nytprof.NewReader(&file).Chunks() {
			testenv.OK(t, err)
			if l, ok := c.(*nytprof.SrcLine); ok {
				texts++
				if strings.Contains(l.Text.Text, "not markup") {
					lines++
				}
			}
		}
		if wantLines := []int{1, 0, 0}[i]; lines != wantLines || (texts > 10) == o.NoSource {
			t.Errorf("%+v: the line is there %d times, want %d; %d lines in all", o, lines, wantLines, texts)
		}
	}
}

// A perl program's profile has the times that Devel::NYTProf reports.
func TestPerlProfile(t *testing.T) {
	for _, file := range goldens(t) {
		if file == cutOff || filepath.Base(file) == "c20-integers.nytprof" {
			continue // one has no end, one no sense
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			d := load(t, file)
			p := testenv.Must(Profile(d))
			f := figuresOf(p)
			for _, s := range d.Subs {
				// Returns have whole ticks, callers the exact time.
				tolerance := 100 * float64(s.Count()+1)
				if d := f.self[s.Name] - s.Excl()*1e9; s.Count() > 0 && math.Abs(d) > tolerance {
					t.Errorf("%s: self %g ns, want %g", s.Name, f.self[s.Name], s.Excl()*1e9)
				}
				var calls float64 // that returned below it, at most a tick off each
				for _, s := range d.Subs {
					calls += float64(s.Count())
				}
				if d := f.total[s.Name] - s.Incl()*1e9; s.Count() > 0 && math.Abs(d) > tolerance+100*calls {
					t.Errorf("%s: total %g ns, want %g", s.Name, f.total[s.Name], s.Incl()*1e9)
				}
			}
			if p.Program == "" || p.Start.Year() < 2023 || p.Samples == 0 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// Lines of the main program, and of a program whose subs were not timed, have
// the times of their statements.
func TestPerlLines(t *testing.T) {
	d := load(t, goldenDir+"c14-nosubs.nytprof")
	p := testenv.Must(Profile(d))
	f := figuresOf(p)
	n := 0
	for _, file := range d.Files {
		for line, lt := range file.Lines {
			at := profile.Frame{File: file.Name, Line: int32(line)}
			if math.Abs(f.line[at]-float64(lt.Ticks)*100) > 1 {
				t.Errorf("%v: %g ns, want %d ticks", at, f.line[at], lt.Ticks)
			}
			n++
		}
	}
	if n < 20 || f.self[runtimeSub] == 0 {
		t.Errorf("%d lines, main program %g", n, f.self[runtimeSub])
	}
}

func TestReadErrors(t *testing.T) {
	f := testenv.Must(os.Open(cutOff))
	defer f.Close()
	if _, err := Read(f); err == nil {
		t.Error("a cut off file makes a profile")
	}
	if _, err := Read(bytes.NewReader([]byte("NYTProf 5 0\n+\x01\x01\x01"))); err == nil {
		t.Error("a file without ticks_per_sec makes a profile")
	}
}

// A tree as deep as the file is long makes stacks that are cut in the middle,
// and not more of them than memory holds.
func TestDeepTree(t *testing.T) {
	d := &nytprof.Data{Attributes: []nytprof.Attribute{{Key: "ticks_per_sec", Value: "10000000"}}, Calls: new(nytprof.Call)}
	at := d.Calls
	for i := range 2000 {
		at.Calls = map[string]*nytprof.Call{"": {Sub: "main::f" + strconv.Itoa(i), Excl: 10}}
		at = at.Calls[""]
	}
	p := testenv.Must(Profile(d))
	deepest := p.Records[0]
	for _, r := range p.Records {
		if p.Frames[r.Stack[0]].Func == "main::f1999" {
			deepest = r
		}
	}
	name := func(i int) string { return p.Frames[deepest.Stack[i]].Func }
	if n := len(deepest.Stack); n != maxPath+1 || name(1) != "main::f1998" || name(n-1) != "main::f0" || name(n-maxPath/2) != "main::f255" {
		t.Errorf("%d frames from %s to %s, %s", n, name(1), name(n-1), name(n-maxPath/2))
	}
	defer func(was int) { maxFrameIDs = was }(maxFrameIDs)
	maxFrameIDs = 100_000
	testenv.Fails(t, "", testenv.Err(Profile(d)), "more than 100000")
}
