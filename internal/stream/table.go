package stream

// A Table numbers different values from 0, in the order in which they come first. The zero value is empty.
type Table[T comparable] struct {
	List   []T // by number
	number map[T]uint32
}

// Of returns the number of a value.
func (t *Table[T]) Of(v T) uint32 {
	n, ok := t.number[v]
	if !ok {
		if t.number == nil {
			t.number = map[T]uint32{}
		}
		n = uint32(len(t.List))
		t.number[v] = n
		t.List = append(t.List, v)
	}
	return n
}
