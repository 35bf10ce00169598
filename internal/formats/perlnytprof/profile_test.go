package perlnytprof

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
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
	src := testenv.Must(os.ReadFile(goldenDir + "src/workload.go"))
	f := parseFunctions(src)
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
	if f := parseFunctions([]byte("no Go")); len(f.declared)+len(f.literal) > 0 {
		t.Errorf("found %v", f)
	}
}
