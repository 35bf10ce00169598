package gotest

import (
	"cmp"
	"iter"
	"maps"
	"regexp"
	"slices"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// The labels that goroutines get.
const (
	packageLabel = "package"
	testLabel    = "test"
)

// runners are the functions of package testing that call tests, benchmarks, fuzz targets and
// examples.
var runners = []string{"testing.tRunner", "testing.(*B).runN", "testing.fRunner", "testing.runExample"}

// testNames matches the names of tests and of functions in them, such as example.com/m.TestA.func1.
var testNames = regexp.MustCompile(`^(?:.*/)?[^/.]+\.((?:Test|Benchmark|Fuzz|Example)(?:[^./\p{Ll}][^./]*)?)(?:\.|$)`)

// testName returns the name of the test that a function is or is in, "" if it is in none.
func testName(function string) string {
	if m := testNames.FindStringSubmatch(function); m != nil && m[1] != "TestMain" {
		return m[1]
	}
	return ""
}

// labelled is the profile of a process with the labels package and test.
type labelled struct {
	*reader.Reader
	goroutines []tachyon.Goroutine
	tests      map[string]bool // that have samples
}

// Goroutines yields the goroutines with labels.
func (l *labelled) Goroutines() iter.Seq2[*tachyon.Goroutine, error] {
	return func(yield func(*tachyon.Goroutine, error) bool) {
		for i := range l.goroutines {
			if !yield(&l.goroutines[i], nil) {
				return
			}
		}
	}
}

// newLabelled reads the profile of a process once. In each stack the function that a runner calls
// is the test.
func newLabelled(s *reader.Reader, importPath string) (*labelled, error) {
	m, err := s.Metadata()
	if err != nil {
		return nil, err
	}
	t := &tests{known: map[uint64]*tachyon.Goroutine{}, names: map[uint64]string{}, of: map[uint64]string{}}
	for i := range m.Goroutines {
		g := m.Goroutines[i]
		t.known[g.ID] = &g
	}
	seen, err := t.read(s)
	if err != nil {
		return nil, err
	}
	l := &labelled{Reader: s, tests: map[string]bool{}}
	for id := range seen {
		if t.known[id] == nil {
			t.known[id] = &tachyon.Goroutine{ID: id}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.known)) {
		g := *t.known[id]
		spans := []mainSpan{{0, t.test(id, g.First)}}
		if id == mainGoroutine {
			spans = t.main
		}
		var labels []tachyon.LabelSpan
		for _, sp := range spans {
			set := map[string]string{packageLabel: importPath}
			if sp.name != "" {
				set[testLabel] = sp.name
				if seen[id] {
					l.tests[sp.name] = true
				}
			}
			labels = append(labels, tachyon.LabelSpan{From: sp.from, Labels: set})
		}
		g.Labels = join(labels, g.Labels)
		l.goroutines = append(l.goroutines, g)
	}
	return l, nil
}

// read finds the tests of the stacks of all goroutines, and of the main one over time. It returns
// which goroutines have samples.
func (t *tests) read(s *reader.Reader) (seen map[uint64]bool, err error) {
	frames := s.Frames()
	runs, called := make([]bool, len(frames)), make([]string, len(frames))
	for i, f := range frames {
		runs[i], called[i] = slices.Contains(runners, f.Func), testName(f.Func)
	}
	start, latest := s.Header().Start, uint64(0)
	seen = map[uint64]bool{}
	for sample, err := range s.Samples() {
		if err != nil {
			return nil, err
		}
		id, name := sample.Thread, ""
		seen[id] = true
		if id != mainGoroutine && t.names[id] != "" {
			continue
		}
		for i := len(sample.Stack) - 1; i > 0; i-- { // from the goroutine's first function on
			if runs[sample.Stack[i]] {
				name = called[sample.Stack[i-1]]
				break
			}
		}
		if id != mainGoroutine {
			t.names[id] = name
			continue
		}
		if n := len(t.main); n == 0 || t.main[n-1].name != name {
			t.main = append(t.main, mainSpan{latest, name})
		}
		latest = sample.Time - min(sample.Time, start) + 1 // a sample stands for the time from here to the next one
	}
	return seen, nil
}

// mainGoroutine runs examples, one after the other. All other goroutines belong to one test at
// most.
const mainGoroutine = 1

// A mainSpan is what the main goroutine runs from a time on, in µs since the start.
type mainSpan struct {
	from uint64
	name string
}

// tests finds the tests of goroutines.
type tests struct {
	known map[uint64]*tachyon.Goroutine
	names map[uint64]string // by the stacks of goroutines
	main  []mainSpan
	of    map[uint64]string // what test has found
}

// test returns the test that a goroutine belonged to at a time. That is the test of the goroutine
// that started it, so a subtest's goroutine belongs to the whole test. If that goroutine has no
// sample, its own stack tells, or the function that started it.
func (t *tests) test(id, at uint64) (name string) {
	if id == mainGoroutine {
		for _, s := range t.main {
			if s.from <= at {
				name = s.name
			}
		}
		return name
	}
	if name, ok := t.of[id]; ok {
		return name
	}
	t.of[id] = "" // should there be a circle
	g := cmp.Or(t.known[id], &tachyon.Goroutine{})
	switch name = t.names[id]; {
	case g.Parent > mainGoroutine:
		name = cmp.Or(t.test(g.Parent, g.First), name)
	case g.Parent == mainGoroutine:
		name = cmp.Or(name, t.test(g.Parent, g.First))
	}
	name = cmp.Or(name, testName(g.CreatedBy))
	t.of[id] = name
	return name
}

// join returns the labels of both lists. If a name is in both, the first list's label counts.
func join(first, second []tachyon.LabelSpan) (out []tachyon.LabelSpan) {
	if len(second) == 0 {
		return first
	}
	var at []uint64
	for _, l := range slices.Concat(first, second) {
		at = append(at, l.From)
	}
	slices.Sort(at)
	for _, from := range slices.Compact(at) {
		set := map[string]string{}
		maps.Copy(set, labelsAt(second, from))
		maps.Copy(set, labelsAt(first, from))
		if n := len(out); n == 0 || !maps.Equal(out[n-1].Labels, set) {
			out = append(out, tachyon.LabelSpan{From: from, Labels: set})
		}
	}
	return out
}

// labelsAt returns the labels at a time.
func labelsAt(list []tachyon.LabelSpan, at uint64) map[string]string {
	i, ok := slices.BinarySearchFunc(list, at, func(l tachyon.LabelSpan, at uint64) int { return cmp.Compare(l.From, at) })
	if !ok {
		i--
	}
	if i < 0 {
		return nil
	}
	return list[i].Labels
}
