package analyze

import "github.com/gotach/profiler/internal/stream"

// Groups name the groups of goroutines that were created at one place, as ByEntry does. They are asked sample by sample
// while a source is read.
type Groups struct {
	entries
	names   []string // by creator
	tests   []string // by stack
	checked []bool   // by stack: tests has it
}

// NewGroups returns the groups of a source, which must have stream.Options.Creators.
func NewGroups(src *stream.Source) *Groups { return &Groups{entries: entries{src}} }

// Of returns the name of the group of a goroutine's sample: the function that created the goroutine and, after a tab,
// where; or a test's name.
func (g *Groups) Of(s *stream.Sample) string {
	if n := len(g.src.Stacks()); len(g.tests) < n {
		g.tests = append(g.tests, make([]string, n-len(g.tests))...)
		g.checked = append(g.checked, make([]bool, n-len(g.checked))...)
	}
	if !g.checked[s.Stack] {
		g.tests[s.Stack], g.checked[s.Stack] = g.test(s.Stack), true
	}
	if name := g.tests[s.Stack]; name != "" {
		return name
	}
	if s.Creator == 0 {
		return g.creator(s)
	}
	if n := len(g.src.Creators()); len(g.names) < n {
		g.names = append(g.names, make([]string, n-len(g.names))...)
	}
	name := &g.names[s.Creator]
	if *name == "" {
		*name = g.creator(s)
	}
	return *name
}
