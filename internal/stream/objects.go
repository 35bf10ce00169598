package stream

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// ObjectNumbers gives the objects of many files numbers of their own. A number of a process stays
// the same object in all its files.
type ObjectNumbers struct {
	of   map[processObject]int32
	all  map[int32]tachyon.Object // by joined number
	last int32
}

// processObject is an object of a process.
type processObject struct {
	Process
	number int32
}

// Number returns the joined number of an object, 0 for the number 0.
func (n *ObjectNumbers) Number(p Process, number int32) int32 {
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

// Stream adds a file's objects. It returns the file's stream with the joined numbers.
func (n *ObjectNumbers) Stream(f *Part) reader.Stream {
	for _, o := range f.Metadata.Objects {
		o.Number = n.Number(f.Process, o.Number)
		o.Members = slices.Clone(o.Members)
		for i, member := range o.Members {
			o.Members[i] = n.Number(f.Process, member)
		}
		if o.Number > 0 {
			n.all[o.Number] = o
		}
	}
	s := f.File.Stream
	return reader.WithObjects(s, func(number int32) int32 { return n.Number(f.Process, number) })
}

// List returns the objects of all files.
func (n *ObjectNumbers) List() []tachyon.Object {
	return slices.SortedFunc(maps.Values(n.all), func(a, b tachyon.Object) int { return cmp.Compare(a.Number, b.Number) })
}
