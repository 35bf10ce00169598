package pprof

import "github.com/gotach/profiler/internal/formats/protobuf"

// A stringTable numbers strings.
type stringTable struct {
	numbers map[string]int64
	values  map[string]int64 // of labels, some of which may be different for each goroutine
	count   int64
	b       []byte // the encoded strings that are not written yet, in the order of their numbers
}

// maxValues is the number of labels' values that are remembered. After that they may be in the
// table several times.
const maxValues = 1 << 17

// add returns the number of a string.
func (t *stringTable) add(s string) int64 {
	n, ok := t.numbers[s]
	if !ok {
		if n, ok = t.values[s]; ok {
			return n
		}
		if t.numbers == nil {
			t.numbers, t.values = map[string]int64{}, map[string]int64{}
		}
		n = t.append(s)
		t.numbers[s] = n
	}
	return n
}

// value returns the number of a label's value.
func (t *stringTable) value(s string) int64 {
	n, ok := t.values[s]
	if !ok {
		if n, ok = t.numbers[s]; ok {
			return n
		}
		if len(t.values) == maxValues {
			clear(t.values)
		}
		n = t.append(s)
		t.values[s] = n
	}
	return n
}

func (t *stringTable) append(s string) int64 {
	t.b = protobuf.Message(t.b, profileString, s)
	t.count++
	return t.count - 1
}
