package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/tachyon"
)

// A tableString is a string of the string table and its offset in the file.
type tableString struct {
	offset int64
	text   string
}

// readTables reads strings, frames and statistics, which end at the file offset end, where the
// footer is. It compares counts with the number of bytes before it allocates memory for them. It
// does not read the record section, which can be larger than all of them.
func (r *Reader) readTables(end int64) error {
	base, frames := int64(r.header.StringOffset), int64(r.header.FrameOffset)
	strict := r.header.Layout == tachyon.Document

	stringEnd := end // CPython does not compare the two tables
	if strict {
		stringEnd = frames
	}
	b, err := r.copyTables(base, stringEnd)
	if err != nil {
		return err
	}
	if r.header.Layout == tachyon.CPython315 {
		s, n, before, err := decode.Statistics(b, decode.Order(&r.header))
		if err != nil {
			return r.errorAt(end-int64(before), "%w", err)
		}
		r.stats = s
		end -= int64(n)
	}
	strings, n, err := r.readStrings(b, base)
	if err != nil {
		return err
	}
	if strict && base+int64(n) != frames {
		return r.errorAt(base+int64(n), "the string table ends before the frame table at %d", frames)
	}
	if frames > end {
		return r.errorAt(end, "the frame table starts in the statistics")
	}
	frameEnd, err := r.findSection(strings, end)
	if err != nil {
		return err
	}
	if strict {
		if b, err = r.copyTables(frames, frameEnd); err != nil {
			return err
		}
	} else {
		b = b[frames-base : frameEnd-base]
	}
	list, n, used, err := r.readFrames(b, frames, strings)
	if err != nil {
		return err
	}
	if strict && n != len(b) {
		return r.errorAt(frames+int64(n), "%d unexpected bytes between frame table and footer", len(b)-n)
	}
	r.tables.Store(&tables{list, slices.Clone(strings[used:])}) // Clone frees the memory of the others
	return nil
}

// readStrings reads the string table at the start of b. base is its offset in the file. It
// returns the strings and the length n of the table in bytes.
func (r *Reader) readStrings(b []byte, base int64) (list []tableString, n int, err error) {
	count := int(r.footer.Strings)
	if uint64(r.footer.Strings) > uint64(len(b)) {
		return nil, 0, r.errorAt(r.Size()-tachyon.FooterSize, "%d strings do not fit into %d bytes", r.footer.Strings, len(b))
	}
	list = make([]tableString, count)
	text := string(b)
	for i := range list {
		size, k := binary.Uvarint(b[n:])
		if k <= 0 {
			return nil, 0, r.errorAt(base+int64(n), "length of string %d of %d: %w", i, count, varintError(k))
		}
		if size > uint64(len(b)-n-k) {
			return nil, 0, r.errorAt(base+int64(n), "string %d of %d has %d bytes, but only %d are left in the table", i, count, size, len(b)-n-k)
		}
		list[i] = tableString{base + int64(n), text[n+k : n+k+int(size)]}
		n += k + int(size)
	}
	return list, n, nil
}

// readFrames reads the frame table at the start of b. base is its offset in the file. It returns
// the frames, the length n of the table in bytes and the number of strings up to the last one that
// a frame uses.
func (r *Reader) readFrames(b []byte, base int64, strings []tableString) (list []tachyon.Frame, n, used int, err error) {
	shortest := 3 // bytes of an entry
	if r.header.Layout == tachyon.CPython315 {
		shortest = 7
	}
	count := int(r.footer.Frames)
	if uint64(r.footer.Frames) > uint64(len(b)/shortest) {
		return nil, 0, 0, r.errorAt(r.Size()-tachyon.FooterSize+4, "%d frames do not fit into %d bytes", r.footer.Frames, len(b))
	}
	list = make([]tachyon.Frame, count)
	for i := range list {
		e := entry{b: b, n: n}
		f, file, fn := e.frame(r.header.Layout, len(strings))
		if e.err != nil {
			return nil, 0, 0, r.errorAt(base+int64(e.n), "frame %d of %d: %w", i, count, e.err)
		}
		f.File, f.Func = strings[file].text, strings[fn].text
		list[i] = f
		used = max(used, file+1, fn+1)
		n = e.n
	}
	return list, n, used, nil
}

// An entry decodes one entry of the frame table. After an error n does not change.
type entry struct {
	b   []byte
	n   int
	err error
}

// frame decodes the entry. It returns the frame without its strings, and their indices into the
// table of so many strings.
func (e *entry) frame(layout tachyon.Layout, strings int) (f tachyon.Frame, file, fn int) {
	file, fn = e.index(strings), e.index(strings)
	f.Line = e.int32()
	if layout == tachyon.CPython315 {
		// +1 wraps around like the writer's -1, so no value is lost.
		f.Span = tachyon.Span{Lines: e.int32(), Column: e.int32() + 1, Columns: e.int32(), Opcode: int16(e.byte()+1) & 0xff}
	}
	return f, file, fn
}

// index reads an index into the string table.
func (e *entry) index(count int) int {
	if e.err != nil {
		return 0
	}
	v, k := binary.Uvarint(e.b[e.n:])
	switch {
	case k <= 0:
		e.err = varintError(k)
		return 0
	case v >= uint64(count):
		e.err = fmt.Errorf("it refers to string %d, but the file has %d strings", v, count)
		return 0
	}
	e.n += k
	return int(v)
}

func (e *entry) int32() int32 {
	if e.err != nil {
		return 0
	}
	v, k := binary.Varint(e.b[e.n:])
	switch {
	case k <= 0:
		e.err = varintError(k)
		return 0
	case v < math.MinInt32 || v > math.MaxInt32:
		e.err = fmt.Errorf("%d does not fit into 32 bits", v)
		return 0
	}
	e.n += k
	return int32(v)
}

func (e *entry) byte() int {
	if e.err != nil {
		return 0
	}
	if e.n == len(e.b) {
		e.err = errCut
		return 0
	}
	e.n++
	return int(e.b[e.n-1])
}

var (
	errCut  = errors.New("truncated data")
	errLong = errors.New("a number longer than 64 bits")
)

// varintError returns the error for a length of 0 or less from binary.Uvarint.
func varintError(n int) error {
	if n < 0 {
		return errLong
	}
	return errCut
}
