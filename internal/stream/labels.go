package stream

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Labels are the pprof labels of a goroutine for some time. Equal labels of a file have one address. There may be
// different ones for each goroutine, so they are not kept as a map.
type Labels struct {
	// Key is equal for equal labels. It has the keys in ascending order, each followed by its value; before each text
	// is its length as a uvarint.
	Key string
}

// newLabels returns labels, one value for equal ones. It returns nil if there are none.
func newLabels(sets map[string]*Labels, set map[string]string) *Labels {
	if len(set) == 0 {
		return nil
	}
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(set)) {
		v := set[k]
		b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	l := sets[string(b)]
	if l == nil {
		l = &Labels{string(b)}
		sets[l.Key] = l
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
