package stream

import (
	"math"
	"slices"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// objectNumbers gives the objects of many files numbers of their own. A number of a process stays
// the same object in all its files.
type objectNumbers struct {
	of   map[processObject]int32
	last int32
}

// processObject is an object of a process.
type processObject struct {
	Process
	number int32
}

// number returns the joined number of an object, 0 for the number 0.
func (n *objectNumbers) number(p Process, number int32) int32 {
	if number <= 0 {
		return number
	}
	key := processObject{p, number}
	to, ok := n.of[key]
	if !ok && n.last < math.MaxInt32 {
		if n.of == nil {
			n.of = map[processObject]int32{}
		}
		n.last++
		to = n.last
		n.of[key] = to
	}
	return to
}

// Objects returns the objects of all files by their numbers in the stream. Options.Objects must be
// set.
func (s *Source) Objects() (map[int32]tachyon.Object, error) {
	out := map[int32]tachyon.Object{}
	for _, p := range s.parts {
		list, err := reader.ListObjects(p.Stream)
		if err != nil {
			if err = s.Damage(named(p.File, err)); err != nil {
				return nil, err
			}
			continue
		}
		s.compact(p.File)
		for _, o := range list {
			if s.renumber(p, &o); o.Number > 0 {
				out[o.Number] = o
			}
		}
	}
	return out, nil
}

// EachObject calls use with what the files say of the objects, with their numbers in the stream. An
// object may come several times; the last description counts. use should keep only what it needs:
// there may be many.
func (s *Source) EachObject(use func(o *tachyon.Object)) error {
	if !s.o.Objects {
		return nil
	}
	for _, p := range s.parts {
		for o, err := range p.Stream.Objects() {
			if err != nil {
				return named(p.File, err)
			}
			s.renumber(p, o)
			use(o)
		}
	}
	return nil
}

// renumber gives an object of a file its numbers in the stream.
func (s *Source) renumber(p *Part, o *tachyon.Object) {
	o.Number = s.object(p, o.Number)
	o.Members = slices.Clone(o.Members)
	for i, member := range o.Members {
		o.Members[i] = s.object(p, member)
	}
}

var waitKinds = map[string]string{
	"sync.Mutex.Lock":     tachyon.ObjectMutex,
	"sync.RWMutex.Lock":   tachyon.ObjectRWMutex,
	"sync.RWMutex.RLock":  tachyon.ObjectRWMutex,
	"sync.WaitGroup.Wait": tachyon.ObjectWaitGroup,
	"sync.Cond.Wait":      tachyon.ObjectCond,
	"semacquire":          tachyon.ObjectSemaphore,
	"chan receive":        tachyon.ObjectChannel,
	"chan send":           tachyon.ObjectChannel,
	"select":              tachyon.ObjectSelect,
}

// WaitKind returns the kind of object for which goroutines wait with a reason, as in
// tachyon.Object, "" if they wait for none.
func WaitKind(reason string) string { return waitKinds[reason] }
