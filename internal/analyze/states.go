package analyze

import (
	"iter"

	"github.com/gotach/profiler/internal/stream"
)

// states have a T for each goroutine. From one file to the next only those are kept that keep says, and
// only for maxFiles files in which the goroutine has no sample. keep must not say so of the zero T. There may be
// very many goroutines, so a T should be small and have no pointers.
type states[T any] struct {
	src     *stream.Source
	keep    func(*T) bool
	file    int
	slots   [][]T         // of the present file, in parts of slotsPart; nil: no sample of the part yet
	ids     [][]goroutine // of the slots; nil if there is one file
	carried map[goroutine]carried[T]
}

// slotsPart is the number of slots that are allocated together. A slice that grows would need twice the memory, and
// be copied.
const slotsPart = 1 << 12

const maxFiles = 3

type carried[T any] struct {
	T    T
	file int // in which the goroutine had its latest sample
}

// A goroutine is the id of a goroutine or of a pseudo thread.
type goroutine struct {
	id          uint64
	interpreter uint32
	used        bool
}

// of returns the state of a sample's goroutine. It stays valid until the next file.
func (st *states[T]) of(s *sample) *T {
	part, n := int(s.Slot/slotsPart), s.Slot%slotsPart
	if s.file != st.file || part >= len(st.slots) || st.slots[part] == nil {
		st.extend(s.file, part)
	}
	x := &st.slots[part][n]
	if st.ids == nil {
		return x
	}
	if id := &st.ids[part][n]; !id.used {
		*id = goroutine{s.Goroutine, s.Interpreter, true}
		if t, ok := st.carried[*id]; ok {
			*x = t.T
			delete(st.carried, *id)
		}
	}
	return x
}

// find returns the state of a sample's goroutine like of, or nil if it is certainly zero.
func (st *states[T]) find(s *sample) *T {
	part := int(s.Slot / slotsPart)
	if (part >= len(st.slots) || st.slots[part] == nil) && st.src.Files() == 1 {
		return nil
	}
	return st.of(s)
}

// extend makes room for a part of the slots of a file, which may be a new one.
func (st *states[T]) extend(file, part int) {
	if file != st.file {
		st.next()
		st.file = file
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
	if several {
		st.ids[part] = make([]goroutine, slotsPart)
	}
}

// next begins a file.
func (st *states[T]) next() {
	if st.carried == nil {
		st.carried = map[goroutine]carried[T]{}
	}
	for g, t := range st.carried {
		if st.file-t.file >= maxFiles {
			delete(st.carried, g)
		}
	}
	for p, part := range st.slots {
		for i := range part {
			if st.keep(&part[i]) {
				st.carried[st.ids[p][i]] = carried[T]{part[i], st.file}
			}
		}
		clear(part)
		clear(st.ids[p])
	}
}

// all yields the states of all goroutines that were kept or are in the last file. Some may be zero.
func (st *states[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, part := range st.slots {
			for i := range part {
				if !yield(&part[i]) {
					return
				}
			}
		}
		for _, t := range st.carried {
			if !yield(&t.T) {
				return
			}
		}
	}
}
