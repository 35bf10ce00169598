package analyze

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gotach/profiler/internal/stream"
)

// States have a T for each goroutine. From one file to the next only those are kept that keep says,
// and only for maxFiles files in which the goroutine has no sample. keep must not say so of the
// zero T. There may be very many goroutines, so a T should be small and have no pointers.
type States[T any] struct {
	src     *stream.Source
	keep    func(*T) bool
	file    int
	slots   [][]T          // of the present file, in parts of slotsPart; nil: no sample of the part yet
	ids     [][]goroutine  // of the slots; nil if there is one file
	carried [][]carried[T] // of the last maxFiles files, each by ascending id
}

// NewStates returns the states for the goroutines of a source.
func NewStates[T any](src *stream.Source, keep func(*T) bool) States[T] {
	return States[T]{src: src, keep: keep}
}

// slotsPart is the number of slots that are allocated together. A slice that grows would need twice
// the memory, and be copied.
const slotsPart = 1 << 12

const maxFiles = 3

// A carried is the state of a goroutine that had its latest sample in an earlier file.
type carried[T any] struct {
	goroutine // not used: it has had another sample since
	T         T
}

// A goroutine is the id of a goroutine or of a pseudo thread.
type goroutine struct {
	id          uint64
	interpreter uint32
	used        bool
}

// Of returns the state of a sample's goroutine. It stays valid until the next file.
func (st *States[T]) Of(s *Sample) *T {
	part, n := int(s.Slot/slotsPart), s.Slot%slotsPart
	if s.File != st.file || part >= len(st.slots) || st.slots[part] == nil {
		st.extend(s.File, part)
	}
	x := &st.slots[part][n]
	if st.ids == nil {
		return x
	}
	if id := &st.ids[part][n]; !id.used {
		*id = goroutine{s.Goroutine, s.Interpreter, true}
		if c := st.take(*id); c != nil {
			*x = c.T
		}
	}
	return x
}

// take returns what was carried of a goroutine, and forgets it. It returns nil if there is nothing.
func (st *States[T]) take(id goroutine) *carried[T] {
	for _, list := range st.carried {
		if len(list) == 0 || id.id > list[len(list)-1].id { // most goroutines of a file are new, and have higher ids than earlier ones
			continue
		}
		i, ok := slices.BinarySearchFunc(list, id, func(c carried[T], id goroutine) int { return c.compare(id) })
		if ok && list[i].used {
			list[i].used = false
			return &list[i]
		}
	}
	return nil
}

func (g goroutine) compare(o goroutine) int {
	return cmp.Or(cmp.Compare(g.id, o.id), cmp.Compare(g.interpreter, o.interpreter))
}

// Find returns the state of a sample's goroutine like of, or nil if it is certainly zero.
func (st *States[T]) Find(s *Sample) *T {
	part := int(s.Slot / slotsPart)
	if (part >= len(st.slots) || st.slots[part] == nil) && st.src.Files() == 1 {
		return nil
	}
	return st.Of(s)
}

// extend makes room for a part of the slots of a file, which may be a new one.
func (st *States[T]) extend(file, part int) {
	if file < st.file { // another reading
		*st = NewStates(st.src, st.keep)
	}
	for ; st.file < file; st.file++ {
		st.next()
	}
	several := st.src.Files() > 1
	for part >= len(st.slots) {
		st.slots = append(st.slots, nil)
		if several {
			st.ids = append(st.ids, nil)
		}
	}
	if st.slots[part] != nil {
		return
	}
	st.slots[part] = make([]T, slotsPart)
	clear(st.slots[part]) // a page that is read before it is written takes two faults
	if several {
		st.ids[part] = make([]goroutine, slotsPart)
	}
}

// next begins a file.
func (st *States[T]) next() {
	var list []carried[T]
	if len(st.carried) == maxFiles { // its memory is used again
		list = st.carried[0][:0]
		st.carried = slices.Delete(st.carried, 0, 1)
	}
	for p, part := range st.slots {
		for i := range part {
			if st.keep(&part[i]) {
				list = append(list, carried[T]{st.ids[p][i], part[i]})
			}
		}
		clear(part)
		clear(st.ids[p])
	}
	slices.SortFunc(list, func(a, b carried[T]) int { return a.compare(b.goroutine) })
	st.carried = append(st.carried, list)
}

// All yields the states of all goroutines that were kept or are in the last file. Some may be zero.
func (st *States[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, part := range st.slots {
			for i := range part {
				if !yield(&part[i]) {
					return
				}
			}
		}
		for _, list := range st.carried {
			for i := range list {
				if list[i].used && !yield(&list[i].T) {
					return
				}
			}
		}
	}
}
