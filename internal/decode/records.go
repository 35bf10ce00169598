package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// A Record is one record of a record section. Exactly one of its fields is not nil.
type Record struct {
	Goroutine *tachyon.Goroutine // a part of its metadata; valid until the next record
	Progress  []byte             // JSON
	Object    []byte             // JSON
	Stops     *tachyon.Stops     // valid until the next record
}

var errShortRecord = errors.New("truncated record")

// Records calls yield with the records of a block that it knows. The caller must not change b. It
// may keep all of a record but Record.Goroutine. With an error, at is the offset of the record in
// b.
func Records(b []byte, yield func(Record) error) (at int, err error) {
	var d recordDecoder
	return eachRecord(b, func(content []byte) error {
		r, known, err := d.record(content)
		if err == nil && known {
			err = yield(r)
		}
		return err
	})
}

// Weights calls yield with the ID and the FirstWeight of each record of a goroutine in a block.
// It returns as Records does.
func Weights(b []byte, yield func(id, weight uint64) error) (at int, err error) {
	d := recordDecoder{headsOnly: true}
	return eachRecord(b, func(content []byte) error {
		d.b = content[1:]
		switch content[0] {
		case wire.RecordString:
			d.strings = append(d.strings, "")
		case wire.RecordGoroutine:
			if g := d.goroutine(); d.err == nil {
				d.err = yield(g.ID, g.FirstWeight)
			}
		}
		return d.err
	})
}

// Progress calls yield with each record of progress in a block, as JSON, which is part of b. It
// returns as Records does.
func Progress(b []byte, yield func([]byte) error) (at int, err error) {
	return decodeOnly(b, wire.RecordProgress, yield)
}

// Objects is Progress for objects.
func Objects(b []byte, yield func([]byte) error) (at int, err error) {
	return decodeOnly(b, wire.RecordObject, yield)
}

// Stops calls yield with each record of stops in a block, which is valid until the next one. It
// returns as Records does.
func Stops(b []byte, yield func(*tachyon.Stops) error) (at int, err error) {
	var d recordDecoder
	return decodeOnly(b, wire.RecordStops, func(content []byte) error {
		d.b = content
		if s := d.stops(); d.err == nil {
			d.err = yield(s)
		}
		return d.err
	})
}

// decodeOnly calls yield with the content of each record of a kind.
func decodeOnly(b []byte, kind byte, yield func([]byte) error) (at int, err error) {
	return eachRecord(b, func(content []byte) error {
		if content[0] != kind {
			return nil
		}
		return yield(content[1:])
	})
}

// Whole returns the length in bytes of the complete records at the start of b.
func Whole(b []byte) int {
	at, _ := eachRecord(b, func([]byte) error { return nil })
	return at
}

// eachRecord calls f with kind and content of each record. With an error, at is the offset of the
// record in b.
func eachRecord(b []byte, f func(content []byte) error) (at int, err error) {
	for at < len(b) {
		content, n := cutRecord(b[at:])
		if n == 0 {
			return at, errShortRecord
		}
		if err := f(content); err != nil {
			return at, err
		}
		at += n
	}
	return at, nil
}

// cutRecord returns kind and content of the record at the start of b and the record's length, which
// is 0 if the record is incomplete.
func cutRecord(b []byte) (content []byte, n int) {
	size, k := binary.Uvarint(b)
	if k <= 0 || size == 0 || size > uint64(len(b)-k) {
		return nil, 0
	}
	n = k + int(size)
	return b[k:n], n
}

// A recordDecoder decodes the records of a block. After an error b is empty.
type recordDecoder struct {
	id, parent, time uint64 // of the record before; the next record has the differences
	strings          []string
	headsOnly        bool // goroutines without their labels
	g                tachyon.Goroutine
	s                tachyon.Stops
	b                []byte
	err              error
}

func (d *recordDecoder) record(b []byte) (r Record, known bool, err error) {
	d.b = b[1:]
	switch b[0] {
	case wire.RecordString:
		d.strings = append(d.strings, string(d.b))
		return r, false, nil
	case wire.RecordGoroutine:
		r.Goroutine = d.goroutine()
	case wire.RecordProgress:
		r.Progress = bytes.Clone(d.b)
	case wire.RecordObject:
		r.Object = bytes.Clone(d.b)
	case wire.RecordStops:
		r.Stops = d.stops()
	default:
		return r, false, nil
	}
	return r, d.err == nil, d.err
}

func (d *recordDecoder) goroutine() *tachyon.Goroutine {
	g := &d.g
	*g = tachyon.Goroutine{}
	g.ID = d.diff(&d.id)
	flags := d.byte()
	if flags&wire.HasParent != 0 {
		g.Parent = d.diff(&d.parent)
	}
	if flags&wire.HasCreatedBy != 0 {
		g.CreatedBy = d.text()
	}
	if flags&wire.HasCreatedAt != 0 {
		g.CreatedAt = d.text()
	}
	at := d.time
	if flags&wire.HasFirst != 0 {
		g.First = d.diff(&at)
	}
	from := at
	g.Last = d.diff(&at)
	d.time = g.First
	if flags&wire.HasFirst == 0 {
		d.time = g.Last
	}
	if flags&wire.HasWeight != 0 {
		g.FirstWeight = d.uvarint()
	}
	if flags&wire.HasLabels != 0 && !d.headsOnly {
		for n := d.count(2); n > 0 && d.err == nil; n-- {
			span := tachyon.LabelSpan{From: d.diff(&from), Labels: map[string]string{}}
			for n := d.count(2); n > 0 && d.err == nil; n-- {
				key := d.text()
				span.Labels[key] = d.text()
			}
			g.Labels = append(g.Labels, span)
		}
	}
	if d.err == nil {
		d.err = CheckGoroutine(g)
	}
	return g
}

func (d *recordDecoder) stops() *tachyon.Stops {
	s := &d.s
	s.Until, s.List = d.uvarint(), s.List[:0]
	n, id := d.count(2), uint64(0)
	for range n {
		id += d.uvarint()
		s.List = append(s.List, tachyon.GoroutineStops{ID: id})
	}
	for i := range s.List {
		v := d.uvarint()
		s.List[i].N, s.List[i].AtLeast = v>>1, v&1 != 0
	}
	if d.err == nil {
		d.err = wire.CheckStops(s)
	}
	return s
}

func (d *recordDecoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *recordDecoder) byte() byte {
	if len(d.b) == 0 {
		d.fail(errShortRecord)
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *recordDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errShortRecord)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *recordDecoder) diff(previous *uint64) uint64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail(errShortRecord)
		return 0
	}
	d.b = d.b[n:]
	*previous += uint64(v)
	return *previous
}

// count reads the number of things that take at least size bytes each.
func (d *recordDecoder) count(size int) uint64 {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail(fmt.Errorf("%d things do not fit into a record", n))
		return 0
	}
	return n
}

// text reads a ref.
func (d *recordDecoder) text() string {
	switch n := d.uvarint(); {
	case d.err != nil:
		return ""
	case n > uint64(len(d.strings)):
		d.fail(fmt.Errorf("it refers to string %d, but the block has %d before it", n, len(d.strings)))
		return ""
	case n > 0:
		return d.strings[n-1]
	}
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail(errShortRecord)
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}
