package perlnytprof

import (
	"os"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

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
		if got := perlName(c.goes); got != c.perl {
			t.Errorf("%q becomes %q, want %q", c.goes, got, c.perl)
		}
		want := c.back
		if want == "" {
			want = c.goes
		}
		if got := goName(c.perl); got != want {
			t.Errorf("%q goes back to %q, want %q", c.perl, got, want)
		}
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
		if got := f.around(c.name, c.seen); got != c.whole {
			t.Errorf("%s at %v: %v, want %v", c.name, c.seen, got, c.whole)
		}
	}
	if f := parseFunctions([]byte("no Go")); len(f.declared)+len(f.literal) > 0 {
		t.Errorf("found %v", f)
	}
}
