package analyze

import "iter"

// A partList is a list that grows without copying, as it may have millions of elements.
type partList[T any] struct {
	parts [][]T
	len   int32
}

const listPart = 1 << 12

func (l *partList[T]) add(x T) {
	if l.len%listPart == 0 {
		l.parts = append(l.parts, make([]T, listPart))
	}
	*l.at(l.len) = x
	l.len++
}

func (l *partList[T]) at(n int32) *T { return &l.parts[uint32(n)/listPart][uint32(n)%listPart] }

// all yields all elements.
func (l *partList[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := range l.len {
			if !yield(l.at(n)) {
				return
			}
		}
	}
}
