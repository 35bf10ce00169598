package wire

import (
	"encoding/binary"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// The kinds of records in the record section. Package tachyon describes the section.
const (
	RecordString    = 1
	RecordGoroutine = 2
	RecordProgress  = 3
	RecordObject    = 4
	RecordStops     = 5
)

// The flags of a goroutine's record.
const (
	HasParent = 1 << iota
	HasCreatedBy
	HasCreatedAt
	HasFirst
	HasWeight
	HasLabels
)

const (
	MaxText   = 64 << 10 // bytes of a string in a record; the rest is cut off
	MaxRecord = 1 << 20  // bytes of a goroutine's record, about; more label spans go into another record
)

// A RecordEncoder encodes the records of one block after the other.
type RecordEncoder struct {
	numbers map[string]uint64 // of the block's strings; 0: a value that occurred once
	last    uint64            // number of the latest string
	recordState
	b, head []byte // buffers
}

// recordState has the values from which the next record's differ.
type recordState struct{ id, parent, time uint64 }

// Reset begins a new block.
func (e *RecordEncoder) Reset() {
	clear(e.numbers)
	e.last, e.recordState = 0, recordState{}
}

// AppendGoroutine appends the record of a goroutine, or several if there are many labels.
func (e *RecordEncoder) AppendGoroutine(out []byte, g *tachyon.Goroutine) []byte {
	part := *g
	for {
		var rest []tachyon.LabelSpan
		out, rest = e.appendPart(out, &part)
		if len(rest) == 0 {
			return out
		}
		part = tachyon.Goroutine{ID: g.ID, Last: g.Last, Labels: rest}
	}
}

// appendPart returns the label spans for which there was no room in the record.
func (e *RecordEncoder) appendPart(out []byte, g *tachyon.Goroutine) ([]byte, []tachyon.LabelSpan) {
	if e.numbers == nil {
		e.numbers = make(map[string]uint64)
	}
	flags := byte(0)
	for i, is := range [...]bool{g.Parent != 0, g.CreatedBy != "", g.CreatedAt != "", g.First != 0, g.FirstWeight != 0, len(g.Labels) > 0} {
		if is {
			flags |= 1 << i
		}
	}
	e.head = e.head[:0] // records of new strings
	b := appendDiff(e.b[:0], g.ID, &e.id)
	b = append(b, flags)
	if flags&HasParent != 0 {
		b = appendDiff(b, g.Parent, &e.parent)
	}
	if flags&HasCreatedBy != 0 {
		b = e.appendShared(b, g.CreatedBy)
	}
	if flags&HasCreatedAt != 0 {
		b = e.appendShared(b, g.CreatedAt)
	}
	at := e.time
	if flags&HasFirst != 0 {
		b = appendDiff(b, g.First, &at)
	}
	from := at
	b = appendDiff(b, g.Last, &at)
	e.time = g.First
	if flags&HasFirst == 0 {
		e.time = g.Last
	}
	if flags&HasWeight != 0 {
		b = binary.AppendUvarint(b, g.FirstWeight)
	}
	labels := g.Labels
	if flags&HasLabels != 0 {
		fit := 1
		for size := labelBytes(labels[0].Labels); fit < len(labels); fit++ {
			if size += labelBytes(labels[fit].Labels); size > MaxRecord {
				break
			}
		}
		b = binary.AppendUvarint(b, uint64(fit))
		for i := range labels[:fit] {
			b = appendDiff(b, labels[i].From, &from)
			b = e.appendLabels(b, labels[i].Labels)
		}
		labels = labels[fit:]
	}
	e.b = b
	return appendRecord(append(out, e.head...), RecordGoroutine, b), labels
}

// labelBytes returns about the size of a label set in a record.
func labelBytes(labels map[string]string) int {
	n := 16
	for k, v := range labels {
		n += min(len(k), MaxText) + min(len(v), MaxText) + 8
	}
	return n
}

// appendLabels appends a set of labels. If it is larger than a record, labels are left out.
func (e *RecordEncoder) appendLabels(b []byte, labels map[string]string) []byte {
	keys := slices.Collect(maps.Keys(labels))
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	for size, i := 0, 0; i < len(keys); i++ {
		if size += len(keys[i]) + min(len(labels[keys[i]]), MaxText); len(keys[i]) > MaxText || size > MaxRecord {
			keys = keys[:i]
		}
	}
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, k := range keys {
		b = e.appendShared(b, k)
		b = e.appendValue(b, labels[k])
	}
	return b
}

// appendShared appends a ref to a string that probably occurs again.
func (e *RecordEncoder) appendShared(b []byte, s string) []byte {
	s = cutText(s)
	n := e.numbers[s]
	if n == 0 {
		e.last++
		n = e.last
		e.numbers[strings.Clone(s)] = n
		e.head = appendRecord(e.head, RecordString, s)
	}
	return binary.AppendUvarint(b, n)
}

// appendValue appends a ref to a string that may be unique. It gets a number when it occurs for
// the second time.
func (e *RecordEncoder) appendValue(b []byte, s string) []byte {
	s = cutText(s)
	if _, again := e.numbers[s]; again {
		return e.appendShared(b, s)
	}
	e.numbers[s] = 0
	return AppendString(append(b, 0), s)
}

// cutText cuts a string that is too long.
func cutText(s string) string {
	if len(s) <= MaxText {
		return s
	}
	return strings.ToValidUTF8(s[:MaxText], "")
}

// appendDiff appends the difference from *previous, and sets *previous to v.
func appendDiff(b []byte, v uint64, previous *uint64) []byte {
	b = binary.AppendVarint(b, int64(v-*previous))
	*previous = v
	return b
}

// appendRecord appends a record.
func appendRecord[T string | []byte](b []byte, kind byte, content T) []byte {
	b = binary.AppendUvarint(b, uint64(len(content))+1)
	return append(append(b, kind), content...)
}

// MaxStops is the number of goroutines in a record of stops.
const MaxStops = 1 << 15

// AppendStops appends the record of stops, or several if there are many goroutines. Their ids must
// ascend.
func (e *RecordEncoder) AppendStops(out []byte, s *tachyon.Stops) []byte {
	for list := range slices.Chunk(s.List, MaxStops) {
		out = e.appendStops(out, s.Until, list)
	}
	if len(s.List) == 0 {
		out = e.appendStops(out, s.Until, nil)
	}
	return out
}

// appendStops puts the ids together, because they are often those of the record before.
func (e *RecordEncoder) appendStops(out []byte, until uint64, list []tachyon.GoroutineStops) []byte {
	b := binary.AppendUvarint(e.b[:0], until)
	b = binary.AppendUvarint(b, uint64(len(list)))
	last := uint64(0)
	for i := range list {
		b = binary.AppendUvarint(b, list[i].ID-last)
		last = list[i].ID
	}
	for i := range list {
		n := list[i].N << 1
		if list[i].AtLeast {
			n |= 1
		}
		b = binary.AppendUvarint(b, n)
	}
	e.b = b
	return appendRecord(out, RecordStops, b)
}

// AppendObject appends the record of an object, given as JSON.
func AppendObject(b, json []byte) []byte { return appendRecord(b, RecordObject, json) }

// AppendProgress appends the record of a progress, given as JSON.
func AppendProgress(b, json []byte) []byte { return appendRecord(b, RecordProgress, json) }

const (
	BlockHeader = 12 // bytes before a block's stored bytes

	// BlockSize is the number of bytes of records after which a block is full. The last record may
	// go beyond it. Larger blocks would be some percent smaller compressed.
	BlockSize = 128 << 10
)

// AppendBlock appends a block of records. compress returns records as a zstd frame; it may be nil.
func AppendBlock(b, records []byte, compress func([]byte) []byte) []byte {
	stored := records
	if compress != nil {
		if z := compress(records); len(z) != len(records) {
			stored = z
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(stored)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(records)))
	b = binary.LittleEndian.AppendUint32(b, CRC(0, stored))
	return append(b, stored...)
}
