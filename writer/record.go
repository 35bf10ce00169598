package writer

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

const (
	recordHead = 8 + 4 + 1 // thread, interpreter, encoding
	// maxRecord is the length of the longest record with frames: a delta of 64 bits,
	// the status, two counts and 256 indices of 32 bits.
	maxRecord = recordHead + 10 + 1 + 2*2 + tachyon.MaxDepth*binary.MaxVarintLen32
)

// repeat adds a sample with the thread's previous stack to the pending repeats.
func (w *Writer) repeat(t *thread, delta uint64, status uint8) {
	if len(t.pending)+maxPair > cap(t.pending) {
		if w.makeRoom(t); w.err != nil || w.out.err != nil {
			return
		}
	}
	if w.j != nil && t.repeats == 0 {
		w.j.Begin(&t.slot, t.id, t.interp)
	}
	t.pending = append(appendUvarint(t.pending, delta), status)
	t.repeats++
	if w.j != nil {
		t.slot.Used(len(t.pending))
	}
}

// makeRoom makes room for another repeat of a thread. It enlarges the thread's buffer up to
// its share, or else ends the run. If the buffer is larger than the share, because there
// were fewer threads before, makeRoom replaces it by a small one.
func (w *Writer) makeRoom(t *thread) {
	share := w.threads.share()
	if size := max(minPendingRoom, 2*cap(t.pending)); size <= share {
		w.pendingRoom(t, size)
		return
	}
	w.flushRepeats(t)
	if cap(t.pending) > share && w.out.err == nil {
		w.pendingRoom(t, minPendingRoom)
	}
}

// flushRepeats writes a record with a thread's pending repeats, if it has any.
func (w *Writer) flushRepeats(t *thread) {
	if t.repeats == 0 {
		return
	}
	b := w.record(t, wire.Repeat, recordHead+binary.MaxVarintLen32+len(t.pending))
	if b == nil {
		return
	}
	b = binary.AppendUvarint(b, uint64(t.repeats))
	w.out.buf = append(b, t.pending...)
	w.out.samples += uint64(t.repeats)
	if w.j != nil {
		w.j.Commit(len(w.out.buf), &t.slot)
	}
	t.pending, t.repeats = t.pending[:0], 0
}

// change writes the record of a sample whose stack differs from the previous one.
func (w *Writer) change(t *thread, delta uint64, status uint8, stack []uint32, shared int) {
	fresh := stack[:len(stack)-shared]
	pop := len(t.stack) - shared
	enc := wire.PopPush
	switch {
	case shared == 0:
		enc = wire.Full
	case pop == 0 && len(fresh) > 0:
		enc = wire.Suffix
	case shared < len(stack)/2:
		enc, fresh = wire.Full, stack
	}
	b := w.record(t, enc, maxRecord)
	if b == nil {
		return
	}
	b = append(appendUvarint(b, delta), status)
	switch enc {
	case wire.Suffix:
		b = appendUvarint(b, uint64(shared))
	case wire.PopPush:
		b = appendUvarint(b, uint64(pop))
	}
	b = appendUvarint(b, uint64(len(fresh)))
	for _, id := range fresh {
		b = appendUvarint(b, uint64(id))
	}
	w.out.buf = b
	w.out.samples++
	if w.j != nil {
		w.j.Commit(len(b), nil)
	}
	t.stack = append(t.stack[:0], stack...)
}

// record begins a record of at most max bytes in the buffer. It returns the buffer, or nil
// after an error of the file.
func (w *Writer) record(t *thread, enc wire.Encoding, max int) []byte {
	b := w.out.room(max)
	if w.out.err != nil {
		return nil
	}
	if !t.recorded {
		t.recorded = true
		w.out.threads++
	}
	b = binary.LittleEndian.AppendUint64(b, t.id)
	b = binary.LittleEndian.AppendUint32(b, t.interp)
	return append(b, enc)
}

// appendUvarint is binary.AppendUvarint with a fast path for one and two bytes.
func appendUvarint(b []byte, v uint64) []byte {
	if v < 1<<7 {
		return append(b, byte(v))
	}
	if v < 1<<14 {
		return append(b, byte(v)|0x80, byte(v>>7))
	}
	return binary.AppendUvarint(b, v)
}

// A table has the strings and frames of a file in order of first use, without duplicates.
type table struct {
	layout   tachyon.Layout
	strings  []string
	frames   []frame
	stringID map[string]uint32
	frameID  map[frame]uint32

	j     *journal.Writer // gets a copy of each entry; may be nil
	entry []byte          // buffer for an entry for j
	err   error           // first error of j
}

// A frame is an entry of the file's frame table.
type frame struct {
	file, fn uint32
	line     int32
	span     tachyon.Span // zero where the layout has none
}

func (t *table) init(layout tachyon.Layout) {
	t.layout = layout
	t.stringID = make(map[string]uint32)
	t.frameID = make(map[frame]uint32)
}

// frame returns the id of f.
func (t *table) frame(f *tachyon.Frame) uint32 {
	k := frame{file: t.string(f.File), fn: t.string(f.Func), line: f.Line}
	if t.layout == tachyon.CPython315 {
		k.span = f.Span
	}
	id, ok := t.frameID[k]
	if !ok {
		id = uint32(len(t.frames))
		t.frameID[k] = id
		t.frames = append(t.frames, k)
		t.fail(t.logFrame(&k))
	}
	return id
}

// string returns the id of s. The format's strings are UTF-8; invalid bytes are replaced.
func (t *table) string(s string) uint32 {
	if id, ok := t.stringID[s]; ok {
		return id
	}
	if !utf8.ValidString(s) {
		id := t.string(strings.ToValidUTF8(s, "\uFFFD"))
		t.stringID[s] = id
		return id
	}
	id := uint32(len(t.strings))
	t.strings = append(t.strings, s)
	t.stringID[s] = id
	t.fail(t.logString(s))
	return id
}

func (t *table) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// appendFrame appends a frame's entry for the frame table.
func (t *table) appendFrame(b []byte, k *frame) []byte {
	return wire.AppendFrame(b, t.layout, k.file, k.fn, k.line, &k.span)
}

// frameBytes returns the length of the frame table in bytes.
func (t *table) frameBytes() (n int64) {
	for i := range t.frames {
		t.entry = t.appendFrame(t.entry[:0], &t.frames[i])
		n += int64(len(t.entry))
	}
	return n
}
