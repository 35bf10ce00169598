package analyze

import "github.com/gotach/profiler/internal/stream"

// Groups name the groups of goroutines that were created at one place, as ByEntry does. They are asked sample by sample
// while a source is read.
type Groups struct {
	entries
	file    int // number of the file of slots + 1
	slots   []string
	tests   []string // by stack
	checked []bool   // by stack: tests has it
}

// NewGroups returns the groups of a source.
func NewGroups(src *stream.Source) *Groups {
	return &Groups{entries: entries{src: src, created: &creations{src: src}}}
}

// Of returns the name of the group of a goroutine's sample: the function that created the goroutine and, after a tab,
// where; or a test's name.
func (g *Groups) Of(s *stream.Sample) (string, error) {
	if n := len(g.src.Stacks()); len(g.tests) < n {
		g.tests = append(g.tests, make([]string, n-len(g.tests))...)
		g.checked = append(g.checked, make([]bool, n-len(g.checked))...)
	}
	if !g.checked[s.Stack] {
		g.tests[s.Stack], g.checked[s.Stack] = g.test(s.Stack), true
	}
	if name := g.tests[s.Stack]; name != "" {
		return name, nil
	}
	if file, _ := g.src.File(); g.file != file+1 {
		g.file = file + 1
		clear(g.slots)
	}
	if n := max(g.src.Slots(), int(s.Slot)+1); len(g.slots) < n {
		g.slots = append(g.slots, make([]string, n-len(g.slots))...)
	}
	name := &g.slots[s.Slot]
	if *name != "" {
		return *name, nil
	}
	var err error
	*name, err = g.name(s)
	return *name, err
}
