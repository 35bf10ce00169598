package analyze

import "iter"

// A PartList is a list that grows without copying, as it may have millions of elements.
type PartList[T any] struct {
	parts [][]T
	Len   int32
}

const listPart = 1 << 12

func (l *PartList[T]) Add(x T) {
	if l.Len%listPart == 0 {
		l.parts = append(l.parts, make([]T, listPart))
	}
	*l.At(l.Len) = x
	l.Len++
}

func (l *PartList[T]) At(n int32) *T { return &l.parts[uint32(n)/listPart][uint32(n)%listPart] }

// All yields all elements.
func (l *PartList[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := range l.Len {
			if !yield(l.At(n)) {
				return
			}
		}
	}
}

// At returns the element i of a list that has what is known of n things, such as stacks, whose
// number grows. It stays valid until the list grows again.
func At[T any](list *[]T, i uint32, n int) *T {
	if int(i) >= len(*list) {
		*list = append(*list, make([]T, n-len(*list))...)
	}
	return &(*list)[i]
}
