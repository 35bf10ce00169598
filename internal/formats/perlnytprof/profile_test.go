package perlnytprof

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/nytprof"
	"github.com/gotach/profiler/tachyon"
)

// A maker is a Builder with words for these tests.
type maker struct{ *profile.Builder }

func newMaker() maker {
	m := maker{profile.NewBuilder()}
	p := m.Profile
	p.Program, p.Start, p.Duration, p.Interval = "workload", time.Unix(1_795_234_152, 634_000_000).UTC(), 3*time.Second, time.Millisecond
	p.Metadata = &tachyon.Metadata{Session: &tachyon.Session{GoVersion: "go1.26.8", PID: 4242}}
	return m
}

// add adds samples of one stack, innermost frame first.
func (m maker) add(goroutine uint64, count int64, wall time.Duration, state string, stack ...profile.Frame) {
	r := profile.Record{Goroutine: goroutine, State: state, Count: count, Wall: wall}
	for _, f := range stack {
		r.Stack = append(r.Stack, m.Frame(f, 0))
	}
	m.Add(r)
}

// workloadSource reads the source of workload.
func workloadSource(file string, in []profile.Frame) []byte {
	if filepath.Base(file) != "workload.go" || len(in) != 13 {
		return nil
	}
	return testenv.Must(os.ReadFile(file))
}

// workload is a profile of testdata/src/workload.go.
func workload(t testing.TB) *profile.Profile {
	file := testenv.Must(filepath.Abs(goldenDir + "src/workload.go"))
	m := newMaker()
	at := func(name string, line int32) profile.Frame { return profile.Frame{File: file, Func: name, Line: line} }
	ms := time.Millisecond
	main := profile.Frame{File: "/usr/local/go/src/runtime/proc.go", Func: "runtime.main", Line: 283}
	goexit := profile.Frame{File: "/usr/local/go/src/runtime/asm_amd64.s", Func: "runtime.goexit", Line: 1700}
	waiting := profile.Frame{Func: "[chan receive]"}
	sending := profile.Frame{Func: "[chan send]"}

	m.add(1, 900, 900*ms, "chan receive", waiting, at("main.main", 41), main, goexit)
	m.add(1, 33, 33*ms+77, "running", at("main.main.func1", 45), profile.Frame{File: "sort/zsortfunc.go", Func: "sort.insertionSort_func", Line: 12},
		profile.Frame{File: "sort/slice.go", Func: "sort.Slice", Line: 29}, at("main.main", 44), main, goexit)
	m.add(1, 5, 5*ms, "running", at("main.(*tree[...]).walk", 20), at("main.main", 48), main, goexit)
	m.add(1, 4, 4*ms, "running", profile.Frame{File: "/nowhere/gen.go", Func: "fmt.Fprintln", Line: 300}, at("main.main.func2", 48),
		at("main.(*tree[...]).walk", 19), at("main.(*tree[...]).walk", 18), at("main.main", 48), main, goexit)
	m.add(2, 300, 300*ms+1, "running", at("main.fib", 28), at("main.fib", 28), at("main.fib", 28), at("main.produce", 33), goexit)
	m.add(2, 120, 120*ms, "running", at("main.fib", 25), at("main.fib", 28), at("main.produce", 33), goexit)
	m.add(4, 3, 3*ms, "running", at("main.fib", 26), at("main.fib", 28), at("main.produce", 33), goexit) // the same functions
	m.add(2, 2, 430*time.Second, "chan send", sending, at("main.produce", 33), goexit)                   // more than 31 bits of ticks
	m.add(3, 7, 7*ms, "running", profile.Frame{File: "/é/数;<x>.go", Func: "exämple.com/数.Send[chan<- int;]", Line: 7})
	m.add(4, 1, 150, "runnable", profile.Frame{Func: "x_cgo_thread_start"}, at("main.produce", 31))
	m.add(5, 1, 0, "running", at("main.produce", 31))
	return m.Finish()
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ goes, perl, back string }{
		{"main.work", "main::work", ""},
		{"net/http.(*conn).serve", "net/http::(*conn).serve", ""},
		{"gopkg.in/yaml%2ev3.(*parser).parse", "gopkg.in/yaml%2ev3::(*parser).parse", ""},
		{"a.b/c.F[a.b/c.T].func1.2", "a.b/c::F[a.b/c.T].func1.2", ""},
		{"main.F[chan<- struct { a int; b int }]", "main::F[chan‹- struct { a int\uff1b b int }]", ""},
		{"[chan receive]", "runtime::[chan receive]", ""},
		{"x_cgo_init", "main::x_cgo_init", "main.x_cgo_init"},
		{"Foo::Bar::baz", "Foo::Bar::baz", "Foo.Bar::baz"},
		{"", "main::(unknown)", "main.(unknown)"},
		{"::", "main::(unknown)", "main.(unknown)"},
		{".b", "main::.b", "main..b"},
		{"a.", "main::a.", "main.a."},
	} {
		testenv.Same(t, c.goes, perlName(c.goes), c.perl)
		want := c.back
		if want == "" {
			want = c.goes
		}
		testenv.Same(t, c.perl, goName(c.perl), want)
	}
}

// The extents of functions come from the source; of a closure its own.
func TestExtents(t *testing.T) {
	f := parseFunctions(testenv.Must(os.ReadFile(goldenDir + "src/workload.go")))
	for _, c := range []struct {
		name        string
		seen, whole extent
	}{
		{"main::fib", extent{28, 28}, extent{23, 28}},
		{"main::(*tree[...]).walk", extent{18, 20}, extent{14, 21}},
		{"main::main", extent{41, 44}, extent{37, 49}},
		{"main::main.func1", extent{45, 45}, extent{44, 46}},
		{"main::main.func2", extent{48, 48}, extent{48, 48}},
		{"main::main.gowrap1", extent{40, 40}, extent{40, 40}}, // no function in the source
		{"main::other", extent{28, 33}, extent{28, 33}},        // the source has changed
	} {
		testenv.Same(t, c.name, f.around(c.name, c.seen), c.whole)
	}
	f = parseFunctions([]byte("no Go"))
	testenv.FailIf(t, len(f.declared)+len(f.literal) > 0, "found %v", f)
}

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
	return testenv.Must(nytprof.Load(testenv.Closes(t, testenv.Must(os.Open(file)))))
}

func roundTrip(t testing.TB, p *profile.Profile, o Options) *profile.Profile {
	t.Helper()
	var file bytes.Buffer
	testenv.OK(t, Write(&file, p, o))
	testenv.Same(t, "warnings", len(testenv.Must(nytprof.Verify(bytes.NewReader(file.Bytes()))).Warnings), 0)
	return testenv.Must(Profile(testenv.Must(nytprof.Load(&file))))
}

// TestReportsAgree compares the times of functions.
func TestRoundTrip(t *testing.T) {
	want := workload(t)
	got := roundTrip(t, want, Options{})
	a, b := figuresOf(want), figuresOf(got)
	testenv.Within(t, "all", b.all, a.all-100*float64(len(want.Records)), a.all+100*float64(len(want.Records)))
	for at, ns := range a.line {
		testenv.Within(t, at, b.line[at], ns-100*float64(len(want.Records)), ns+100*float64(len(want.Records)))
	}
	if !got.Start.Equal(want.Start) || got.Duration != want.Duration || got.Interval != want.Interval ||
		got.Goroutines != want.Goroutines || got.Program != want.Program || got.Samples != want.Samples-1 { // one took no time
		t.Errorf("got %v %v %v %d %q %d", got.Start, got.Duration, got.Interval, got.Goroutines, got.Program, got.Samples)
	}
	for _, r := range got.Records {
		testenv.FailIf(t, got.Frames[r.Stack[0]].Func == "[chan receive]" && r.State != "chan receive", "state %q", r.State)
	}
}

// Only what Source returns is in a file. With NoSource Perl's tools look for the files themselves.
func TestSource(t *testing.T) {
	for i, o := range []Options{{Source: workloadSource}, {}, {NoSource: true}} {
		var file bytes.Buffer
		testenv.OK(t, Write(&file, workload(t), o))
		lines, texts := 0, 0
		for c := range testenv.All(t, nytprof.NewReader(&file).Chunks()) {
			if l, ok := c.(*nytprof.SrcLine); ok {
				texts++
				if strings.Contains(l.Text.Text, "not markup") {
					lines++
				}
			}
		}
		wantLines := []int{1, 0, 0}[i]
		testenv.FailIf(t, lines != wantLines || (texts > 10) == o.NoSource, "%+v: the line is there %d times, want %d; %d lines in all", o, lines, wantLines, texts)
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
			testenv.FailIf(t, p.Program == "" || p.Start.Year() < 2023 || p.Samples == 0, "%+v", p)
		})
	}
}

// Lines of the main program, and of a program whose subs were not timed, have
// the times of their statements.
func TestPerlLines(t *testing.T) {
	d := load(t, goldenDir+"c14-nosubs.nytprof")
	f := figuresOf(testenv.Must(Profile(d)))
	n := 0
	for _, file := range d.Files {
		for line, lt := range file.Lines {
			at := profile.Frame{File: file.Name, Line: int32(line)}
			testenv.Within(t, at, f.line[at], float64(lt.Ticks)*100-1, float64(lt.Ticks)*100+1)
			n++
		}
	}
	testenv.FailIf(t, n < 20 || f.self[runtimeSub] == 0, "%d lines, main program %g", n, f.self[runtimeSub])
}

func TestReadErrors(t *testing.T) {
	testenv.Fails(t, "cut off", testenv.Err(nytprof.Load(bytes.NewReader(testenv.Must(os.ReadFile(cutOff))))), "truncated")
	testenv.Fails(t, "no ticks", testenv.Err(Profile(testenv.Must(nytprof.Load(strings.NewReader("NYTProf 5 0\n+\x01\x01\x01"))))), "ticks_per_sec")
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
	n := len(deepest.Stack)
	testenv.Same(t, "frames", fmt.Sprintln(n, name(1), name(n-1), name(n-maxPath/2)), fmt.Sprintln(maxPath+1, "main::f1998", "main::f0", "main::f255"))
	defer func(was int) { maxFrameIDs = was }(maxFrameIDs)
	maxFrameIDs = 100_000
	testenv.Fails(t, "", testenv.Err(Profile(d)), "more than 100000")
}

func FuzzRead(f *testing.F) {
	for _, file := range goldens(f) {
		b := testenv.Must(os.ReadFile(file))
		f.Add(b[:min(len(b), 8<<10)])
	}
	f.Add([]byte("NYTProf 5 0\n@\xff\xff\xff\xff\xff\x00\x00\x06\x00\x00'\x01a+\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var inflated bytes.Buffer
		w := nytprof.NewWriter(&inflated)
		for c, err := range nytprof.NewReader(bytes.NewReader(b)).Chunks() {
			if _, deflates := c.(*nytprof.StartDeflate); err == nil && !deflates {
				_ = w.Write(c)
			}
		}
		_ = w.Close()
		size := len(b) + inflated.Len()
		var d *nytprof.Data
		testenv.Bounded(t, 1<<20+200*size, func() { d, _ = nytprof.Load(bytes.NewReader(b)) })
		var p *profile.Profile
		var err error
		testenv.Bounded(t, 4<<20+5000*size, func() { p, err = Profile(d) })
		if err != nil {
			return
		}
		for _, r := range p.Records {
			testenv.FailIf(t, r.Wall < 0 || r.Count < 0, "record %+v", r)
			for _, id := range r.Stack {
				_ = p.Frames[id]
			}
		}
		var out bytes.Buffer
		if err := Write(&out, p, Options{NoSource: true, Uncompressed: true}); err != nil && out.Len() < 1<<20 {
			t.Error(err)
		}
	})
}
