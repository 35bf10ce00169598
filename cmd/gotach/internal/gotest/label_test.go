package gotest

import (
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A goroutine belongs to the test of the goroutine that started it. If that is not known, its own stack or its creator tells.
func TestInherited(t *testing.T) {
	main := []mainSpan{{0, ""}, {300, "ExampleA"}, {500, ""}}
	known := map[uint64]*tachyon.Goroutine{
		1: {ID: 1},
		5: {ID: 5, Parent: 1, First: 100}, 6: {ID: 6, Parent: 5, First: 150}, 7: {ID: 7, Parent: 1, First: 400},
		8: {ID: 8, Parent: 9}, 9: {ID: 9, Parent: 8},
	}
	names := map[uint64]string{5: "TestA", 6: "TestOther", 7: "BenchmarkA"}
	for i, c := range []struct {
		what   string
		parent uint64
		first  uint64
		name   string // by its own stack
		by     string // creator
		want   string
	}{
		{"started by nobody", 0, 450, "", "", ""},
		{"a test whose parent is not known", 99, 450, "TestB", "testing.(*T).Run", "TestB"},
		{"started by a test's goroutine", 5, 450, "", "net/http.(*Server).Serve", "TestA"},
		{"a subtest", 5, 450, "TestHelper", "testing.(*T).Run", "TestA"},
		{"started by a subtest's goroutine", 6, 450, "", "", "TestA"},
		{"started by a known goroutine of a subtest", 22, 450, "", "", "TestA"},
		{"started by the main goroutine before all examples", 1, 250, "", "", ""},
		{"in an example", 1, 350, "", "example.com/m.helper", "ExampleA"},
		{"afterwards", 1, 550, "", "", ""},
		{"a benchmark soon after an example", 1, 450, "BenchmarkB", "", "BenchmarkB"},
		{"started by a benchmark's goroutine", 7, 450, "", "", "BenchmarkA"},
		{"started by an unknown goroutine of a test", 99, 450, "", "example.com/m.v2.TestC.func1.2", ""},
		{"the same, in a path with a dot, as the runtime writes it", 99, 450, "", "example.com/m%2ev2.TestC.func1.2", "TestC"},
		{"started by an unknown goroutine of TestMain", 99, 450, "", "example.com/m.TestMain", ""},
		{"of no test", 99, 450, "", "example.com/m.Testify", ""},
		{"of a method", 99, 450, "", "example.com/m.(*S).TestX", ""},
		{"in a circle", 8, 450, "", "", ""},
	} {
		id := uint64(20 + i)
		known[id] = &tachyon.Goroutine{ID: id, Parent: c.parent, First: c.first, CreatedBy: c.by}
		names[id] = c.name
		tests := &tests{known: known, names: names, main: main, of: map[uint64]string{}}
		testenv.Same(t, c.what, tests.test(id, c.first), c.want)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ args, packages, build, rest string }{
		{"", "", "", ""},
		{"./...", "./...", "", "./..."},
		{"-run X ./a ./b -v", "./a ./b", "", "-run X ./a ./b -v"},
		{"-run=X -race -tags t,u ./a", "./a", "-race -tags t,u", "-run=X -race -tags t,u ./a"},
		{"--v -count 3 . -short x", ".", "", "--v -count 3 . -short x"},
		{"-mod=vendor -modfile m.mod ./a", "./a", "", "./a"},
		{"./a -args ./b -run", "./a", "", "./a -args ./b -run"},
		{"./a -update ./b -run", "./a", "", "./a -update ./b -run"}, // the test binary's flag
		{"-test.v -test.run X ./a", "./a", "", "-test.v -test.run X ./a"},
		{"-C dir ./a", "./a", "", "-C dir ./a"},
	} {
		c, err := parse(strings.Fields(tc.args))
		if err != nil {
			t.Errorf("%s: %v", tc.args, err)
			continue
		}
		for _, v := range []struct {
			what, want string
			got        []string
		}{{"packages", tc.packages, c.packages}, {"build flags", tc.build, c.build}, {"arguments", tc.rest, c.args}} {
			if !slices.Equal(v.got, strings.Fields(v.want)) {
				t.Errorf("%s: %s are %q, want %q", tc.args, v.what, v.got, v.want)
			}
		}
	}
	c, err := parse([]string{"-C=d", "-count=2", "-overlay", "o.json", "-mod=mod", "-modfile=m.mod"})
	if err != nil || c.dir != "d" || !c.counted || c.overlay != "o.json" || c.mod != "mod" || c.modfile != "m.mod" {
		t.Errorf("%+v, %v", c, err)
	}
}
