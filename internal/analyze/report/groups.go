package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Groups name the groups of goroutines that were created at one place, as ByEntry does. They are
// asked sample by sample while a source is read.
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

// Of returns the name of the group of a goroutine's sample: the function that created the goroutine
// and, after a tab, where. Goroutines of a test have the name of the test.
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

// grouped returns the function that names the group of a sample, nil if there are no groups. Time
// of no goroutine has the name "", if it is not known by its process.
func grouped(src *stream.Source, by string) (func(*stream.Sample) string, error) {
	group, err := groupOfGoroutine(src, by)
	if group == nil || err != nil {
		return nil, err
	}
	key, isLabel := strings.CutPrefix(by, ByLabel)
	session := src.Metadata().Session != nil
	return func(s *stream.Sample) string {
		if !s.NotSeen && !(session && s.Interpreter == tachyon.Process) {
			return group(s)
		}
		if isLabel {
			name, _ := src.Label(nil, key)
			return name
		}
		return ""
	}, nil
}

// groupOfGoroutine is grouped for samples of goroutines.
func groupOfGoroutine(src *stream.Source, by string) (func(*stream.Sample) string, error) {
	key, isLabel := strings.CutPrefix(by, ByLabel)
	switch {
	case by == "":
		return nil, nil
	case isLabel:
		return func(s *stream.Sample) string {
			if value, ok := src.Label(s.Labels, key); ok {
				return cmp.Or(value, "[empty]")
			}
			return "[no label " + key + "]"
		}, nil
	case by == ByObject:
		names, err := objectNames(src)
		return func(s *stream.Sample) string {
			if f := leafOf(src, s.Stack); analyze.Waits(s.Status) && f.File == "" && f.Line > 0 {
				if name, ok := names[f.Line]; ok {
					return name
				}
				return "object " + strconv.Itoa(int(f.Line))
			}
			return "[" + src.State(s.Status, s.Stack) + "]"
		}, err
	case by == ByPeer:
		peers, err := src.Peers()
		return func(s *stream.Sample) string {
			if analyze.Waits(s.Status) {
				if name, ok := peers[stream.ObjectOf(leafOf(src, s.Stack))]; ok {
					return name
				}
			}
			return "[" + src.State(s.Status, s.Stack) + "]"
		}, err
	case by == ByEntry:
		return NewGroups(src).Of, nil
	}
	return nil, fmt.Errorf("no groups by %q", by)
}

// leafOf returns the innermost frame of a stack. Stack 0 has an empty one.
func leafOf(src *stream.Source, stack uint32) *tachyon.Frame {
	if stack == 0 {
		return &tachyon.Frame{}
	}
	return &src.Frames()[src.Stacks()[stack].Frame]
}

// objectNames returns the names of objects by number.
func objectNames(src *stream.Source) (map[int32]string, error) {
	list, err := src.Objects()
	if err != nil {
		return nil, err
	}
	names := make(map[int32]string, len(list))
	for n, o := range list {
		name := o.Kind
		switch {
		case o.Name != "":
			name += " " + o.Name
		case o.Symbol != "" && o.Offset > 0:
			name += fmt.Sprintf(" %s+%d", o.Symbol, o.Offset)
		case o.Symbol != "":
			name += " " + o.Symbol
		case o.Addr != 0:
			name += fmt.Sprintf(" %#x", o.Addr)
		case len(o.Members) > 0:
			name += fmt.Sprintf(" of %d channels", len(o.Members))
		}
		names[n] = fmt.Sprintf("%s (object %d)", name, n)
	}
	return names, nil
}
