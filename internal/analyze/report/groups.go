package report

import (
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Groups name the groups of goroutines that were created at one place, as ByEntry does. They are asked sample by sample
// while a source is read.
type Groups struct {
	src   *stream.Source
	tests []testOf // by stack
	names []string // by creator
}

type testOf struct {
	known bool
	name  string
}

// NewGroups returns the groups of a source, which must have stream.Options.Creators.
func NewGroups(src *stream.Source) *Groups { return &Groups{src: src} }

// Of returns the name of the group of a goroutine's sample: the function that created the goroutine and, after a tab,
// where. Goroutines of a test have the name of the test.
func (g *Groups) Of(s *stream.Sample) string {
	test := analyze.At(&g.tests, s.Stack, len(g.src.Stacks()))
	if !test.known {
		*test = testOf{true, g.test(s.Stack)}
	}
	if test.name != "" {
		return test.name
	}
	if s.Creator == 0 {
		return g.creator(s)
	}
	name := analyze.At(&g.names, s.Creator, len(g.src.Creators()))
	if *name == "" {
		*name = g.creator(s)
	}
	return *name
}

// creator is Of for a goroutine that is in no test.
func (g *Groups) creator(s *stream.Sample) string {
	by := g.src.Creators()[s.Creator]
	switch {
	case by.Func != "":
		return by.Func + "\t" + by.At
	case s.Status&tachyon.MainThread != 0:
		return "[main goroutine]"
	}
	return "[creator unknown]"
}

// test returns the name of the test in which a stack is, "" if it is in none.
func (g *Groups) test(stack uint32) string {
	callee := ""
	for list := g.src.Stacks(); stack != 0; stack = list[stack].Caller {
		f := &g.src.Frames()[list[stack].Frame]
		if f.Func == "testing.tRunner" {
			return callee
		}
		callee = f.Func
	}
	return ""
}
