package formats

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// objectNumbers gives the objects of many files numbers of their own. A number of a process stays
// the same object in all its files.
type objectNumbers struct {
	of   map[processObject]int32
	all  map[int32]tachyon.Object // by joined number
	last int32
}

// processObject is an object of a process.
type processObject struct {
	process
	number int32
}

// number returns the joined number of an object, 0 for the number 0.
func (n *objectNumbers) number(p process, number int32) int32 {
	if number <= 0 {
		return number
	}
	key := processObject{p, number}
	to, ok := n.of[key]
	if !ok && n.last < math.MaxInt32 {
		if n.of == nil {
			n.of, n.all = map[processObject]int32{}, map[int32]tachyon.Object{}
		}
		n.last++
		to = n.last
		n.of[key] = to
	}
	return to
}

// stream adds a file's objects. It returns the file's stream with the joined numbers.
func (n *objectNumbers) stream(f *joinFile) reader.Stream {
	for _, o := range f.m.Objects {
		o.Number = n.number(f.process, o.Number)
		o.Members = slices.Clone(o.Members)
		for i, member := range o.Members {
			o.Members[i] = n.number(f.process, member)
		}
		if o.Number > 0 {
			n.all[o.Number] = o
		}
	}
	s := f.s
	return reader.WithObjects(s, func(number int32) int32 { return n.number(f.process, number) })
}

// list returns the objects of all files.
func (n *objectNumbers) list() []tachyon.Object {
	return slices.SortedFunc(maps.Values(n.all), func(a, b tachyon.Object) int { return cmp.Compare(a.Number, b.Number) })
}
