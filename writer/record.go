package writer

import (
	"encoding/binary"

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
