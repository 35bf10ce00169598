package gotest

import (
	"testing"

	"github.com/gotach/profiler/tachyon"
)

// A goroutine that runs no test itself belongs to the test of the goroutine that started it.
func TestInherited(t *testing.T) {
	const start = 1_000_000
	spans := map[uint64][]span{
		1: {{name: "TestA", begin: start + 100, end: start + 200}, {name: "TestB", begin: start + 300, end: start + 800}},
		5: {{name: "TestB/sub", begin: start + 350, end: start + 750}},
		6: {{name: "TestB/sub/one", begin: start + 400, end: start + 600}},
		7: {{name: "TestB/sub/two", begin: start + 500, end: start + 700}},
	}
	known := map[uint64]*tachyon.Goroutine{1: {ID: 1}, 5: {ID: 5, Parent: 1}, 6: {ID: 6, Parent: 5}, 7: {ID: 7, Parent: 5}}
	list := []struct {
		what   string
		parent uint64
		first  uint64 // of the goroutine
		want   string
	}{
		{"started by nobody", 0, 450, ""},
		{"started by a test's own goroutine", 6, 450, "TestB/sub/one"},
		{"the same, after the test", 6, 900, "TestB/sub/one"},
		{"started by the main goroutine before all tests", 1, 50, ""},
		{"in its first test", 1, 150, "TestA"},
		{"in its second test", 1, 350, "TestB"},
		{"started by a known goroutine of a test", 21, 900, "TestB/sub/one"},
		{"started by an unknown goroutine while one test ran", 99, 150, "TestA"},
		{"while one subtest ran", 99, 450, "TestB/sub/one"},
		{"while two subtests ran", 99, 550, ""},
		{"while none ran", 99, 250, ""},
	}
	for i, c := range list {
		known[uint64(20+i)] = &tachyon.Goroutine{ID: uint64(20 + i), Parent: c.parent, First: c.first}
	}
	tests := &tests{process: &process{spans: spans}, known: known, start: start, of: map[uint64]string{}}
	for i, c := range list {
		if got := tests.inherited(uint64(20 + i)); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
