package stream

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Labels are the pprof labels of a goroutine for some time. They do not change. Equal labels of a
// file have one address, if there are not very many different ones. There may be different ones for
// each goroutine, so they are not kept as a map.
type Labels struct {
	// Key is equal for equal labels. It has the keys in ascending order, each followed by its
	// value; before each text is its length as a uvarint.
	Key string
}

// A labelTable has the labels of a file's goroutines, by number. If goroutines have labels of their
// own, such as the number of a request, a Labels for each would take much memory. So only the first
// ones are kept as such. Of the others the table keeps texts, and makes Labels of them when they
// are needed.
type labelTable struct {
	list   []*Labels
	number map[string]uint32 // by key, of the latest ones; nil when all were added
	texts  [][]byte          // see text
	made   map[uint32]*Labels
	buf    []byte

	names  []string // keys of labels; many labels have the same
	nameOf map[string]int
}

const (
	// mostListed is the number of labels that are kept as such, and of the others that are known by
	// key or made.
	mostListed = 1 << 14
	// inTexts is added to the place in texts for a number. The place is the chunk's number *
	// textChunk + the offset.
	inTexts   = 1 << 31
	textChunk = 1 << 16
)

// add returns the number of labels + 1, and 0 if there are none. Equal labels mostly have one
// number.
func (t *labelTable) add(set map[string]string) uint32 {
	if len(set) == 0 {
		return 0
	}
	b := appendKey(t.buf[:0], set)
	t.buf = b
	n, ok := t.number[string(b)]
	if ok {
		return n + 1
	}
	if t.number == nil || len(t.number) >= 2*mostListed {
		t.number = map[string]uint32{}
	}
	key := string(b)
	if len(t.list) < mostListed || len(t.texts) == inTexts/textChunk {
		n = uint32(len(t.list))
		t.list = append(t.list, &Labels{key})
	} else {
		n = t.text(set)
	}
	t.number[key] = n
	return n + 1
}

// text adds labels to texts and returns their number. A text is in one chunk. It has the number of
// labels, and for each the number of its key, the length of its value, and its value. Numbers are
// uvarints.
func (t *labelTable) text(set map[string]string) uint32 {
	b := binary.AppendUvarint(t.buf[:0], uint64(len(set)))
	for k, v := range set {
		n, ok := t.nameOf[k]
		if !ok {
			if t.nameOf == nil || len(t.nameOf) >= mostListed {
				t.nameOf = map[string]int{}
			}
			n = len(t.names)
			t.names = append(t.names, k)
			t.nameOf[k] = n
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	t.buf = b
	last := len(t.texts) - 1
	if last < 0 || len(t.texts[last])+len(b) > cap(t.texts[last]) {
		t.texts = append(t.texts, make([]byte, 0, max(len(b), textChunk)))
		last++
	}
	at := len(t.texts[last])
	t.texts[last] = append(t.texts[last], b...)
	return inTexts + uint32(last*textChunk+at)
}

// set returns the labels of a text.
func (t *labelTable) set(text []byte) map[string]string {
	number := func() int {
		v, n := binary.Uvarint(text)
		text = text[n:]
		return int(v)
	}
	set := map[string]string{}
	for range number() {
		name := t.names[number()]
		length := number()
		set[name], text = string(text[:length]), text[length:]
	}
	return set
}

// appendKey appends the key of labels; see Labels.Key.
func appendKey(b []byte, set map[string]string) []byte {
	for _, k := range slices.Sorted(maps.Keys(set)) {
		v := set[k]
		b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	return b
}

// carry adds labels of an earlier file. It returns their number + 1.
func (t *labelTable) carry(l *Labels) uint32 {
	t.list = append(t.list, l)
	return uint32(len(t.list))
}

// get returns labels, given their number + 1.
func (t *labelTable) get(number uint32) *Labels {
	if number == 0 {
		return nil
	}
	number--
	if number < inTexts {
		return t.list[number]
	}
	l := t.made[number]
	if l == nil {
		if t.made == nil || len(t.made) >= mostListed {
			t.made = map[uint32]*Labels{}
		}
		place := number - inTexts
		t.buf = appendKey(t.buf[:0], t.set(t.texts[place/textChunk][place%textChunk:]))
		l = &Labels{string(t.buf)}
		t.made[number] = l
	}
	return l
}

// Get returns the value of a label, and whether it is there.
func (l *Labels) Get(key string) (value string, ok bool) {
	for rest := l.Key; rest != ""; {
		var k string
		k, rest = cutText(rest)
		if value, rest = cutText(rest); k == key {
			return value, true
		}
	}
	return "", false
}

// Map returns the labels as a map, which is a new one.
func (l *Labels) Map() map[string]string {
	set := map[string]string{}
	for rest := l.Key; rest != ""; {
		var k, v string
		k, rest = cutText(rest)
		v, rest = cutText(rest)
		set[k] = v
	}
	return set
}

// cutText returns the text at the start of a key of labels, and what comes after it.
func cutText(s string) (text, rest string) {
	n, shift := 0, 0
	for i := range len(s) {
		n |= int(s[i]&0x7f) << shift
		if shift += 7; s[i] < 0x80 {
			return s[i+1 : i+1+n], s[i+1+n:]
		}
	}
	return "", ""
}
