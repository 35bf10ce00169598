package stream

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/reader"
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

// Objects returns the objects of all files by their numbers in the stream. Options.Objects must be set.
func (s *Source) Objects() (map[int32]tachyon.Object, error) {
	out := map[int32]tachyon.Object{}
	for _, p := range s.parts {
		m, err := p.Stream.Metadata()
		if err != nil {
			if err = named(p.File, err); s.o.Damaged == nil {
				return nil, err
			}
			s.o.Damaged(err)
			continue
		}
		s.compact(p.File)
		for _, o := range m.Objects {
			o.Members = slices.Clone(o.Members)
			for i, member := range o.Members {
				o.Members[i] = s.object(p, member)
			}
			if o.Number = s.object(p, o.Number); o.Number > 0 {
				out[o.Number] = o
			}
		}
	}
	return out, nil
}

// Stream adds a file's objects. It returns the file's stream with the joined numbers.
func (n *ObjectNumbers) Stream(f *Part) (reader.Stream, error) {
	list, err := reader.Objects(f.File.Stream)
	if err != nil {
		return nil, err
	}
	for _, o := range list {
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
	return reader.WithObjects(s, func(number int32) int32 { return n.Number(f.Process, number) }), nil
}

// EachObject calls use with what the files say of the objects, with their numbers in the stream. An
// object may come several times; the last description counts. use should keep only what it needs: there may
// be many.
func (s *Source) EachObject(use func(o *tachyon.Object)) error {
	if !s.o.Objects {
		return nil
	}
	for _, p := range s.parts {
		for o, err := range objects(p.Stream) {
			if err != nil {
				return named(p.File, err)
			}
			o.Number = s.object(p, o.Number)
			o.Members = slices.Clone(o.Members)
			for i, member := range o.Members {
				o.Members[i] = s.object(p, member)
			}
			use(o)
		}
	}
	return nil
}

// objects yields the objects of a stream.
func objects(s reader.Stream) iter.Seq2[*tachyon.Object, error] {
	if r, ok := s.(interface {
		Objects() iter.Seq2[*tachyon.Object, error]
	}); ok {
		return r.Objects()
	}
	return func(yield func(*tachyon.Object, error) bool) {
		m, err := s.Metadata()
		if err != nil {
			yield(nil, err)
			return
		}
		for _, o := range m.Objects {
			if !yield(&o, nil) {
				return
			}
		}
	}
}

// List returns the objects of all files.
func (n *ObjectNumbers) List() []tachyon.Object {
	return slices.SortedFunc(maps.Values(n.all), func(a, b tachyon.Object) int { return cmp.Compare(a.Number, b.Number) })
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

// WaitKind returns the kind of object for which goroutines wait with a reason, as in tachyon.Object, "" if they wait for none.
func WaitKind(reason string) string { return waitKinds[reason] }
