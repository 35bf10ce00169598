package writer

import (
	"strings"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// A table has the strings and frames of a file in order of first use, without duplicates.
type table struct {
	layout    tachyon.Layout
	withSpans bool // the layout has the frames' spans
	strings   []string
	frames    []entry
	keys      []frameKey     // the entries of frames in the file's frame table
	spans     []tachyon.Span // spans of the frames that have one; the first is the zero value
	stringID  map[string]uint32
	frameID   map[frameKey]uint32
	recent    [1 << recentBits]uint32 // ids of recent frames, by frameHash

	j     *journal.Writer // gets a copy of each entry; may be nil
	entry []byte          // buffer for an entry for j
	err   error           // first error of j
}

// An entry is a frame as the caller first passed it, for comparisons. It has the caller's
// strings, not the table's, because strings with the same memory compare fast. It is small,
// because each frame of a sample is compared with one.
type entry struct {
	file, fn string
	line     int32
	span     uint32 // index into spans
}

type frameKey struct {
	file, fn uint32
	line     int32
	span     tachyon.Span
}

const recentBits = 13

// frameHash hashes a frame for recent, without reading its strings.
func frameHash(f *tachyon.Frame) uint32 {
	h := uint32(f.Line)*0x9E3779B1 ^ uint32(len(f.Func))*0x85EBCA77 ^ uint32(len(f.File))*0xC2B2AE3D
	return h >> (32 - recentBits)
}

func (t *table) init(layout tachyon.Layout) {
	t.layout, t.withSpans = layout, layout == tachyon.CPython315
	t.spans = make([]tachyon.Span, 1)
	t.stringID = make(map[string]uint32)
	t.frameID = make(map[frameKey]uint32)
}

// frame returns the id of f.
func (t *table) frame(f *tachyon.Frame) uint32 {
	slot := &t.recent[frameHash(f)]
	if uint64(*slot) < uint64(len(t.frames)) && t.same(f, &t.frames[*slot]) {
		return *slot
	}
	k := frameKey{file: t.string(f.File), fn: t.string(f.Func), line: f.Line}
	if t.withSpans {
		k.span = f.Span
	}
	id, ok := t.frameID[k]
	if !ok {
		id = uint32(len(t.frames))
		t.frameID[k] = id
		e := entry{file: f.File, fn: f.Func, line: f.Line}
		if k.span != (tachyon.Span{}) {
			e.span = uint32(len(t.spans))
			t.spans = append(t.spans, k.span)
		}
		t.frames = append(t.frames, e)
		t.keys = append(t.keys, k)
		t.fail(t.logFrame(&k))
	}
	*slot = id
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
func (t *table) appendFrame(b []byte, k *frameKey) []byte {
	return wire.AppendFrame(b, t.layout, k.file, k.fn, k.line, &k.span)
}

// frameBytes returns the length of the frame table in bytes.
func (t *table) frameBytes() (n int64) {
	for i := range t.keys {
		t.entry = t.appendFrame(t.entry[:0], &t.keys[i])
		n += int64(len(t.entry))
	}
	return n
}

// same reports whether f is the frame e.
func (t *table) same(f *tachyon.Frame, e *entry) bool {
	return f.Line == e.line && f.Func == e.fn && f.File == e.file && (!t.withSpans || f.Span == t.spans[e.span])
}

// commonSuffix returns how many outermost frames are the same in two stacks. The second
// stack is given by ids.
func (t *table) commonSuffix(stack []tachyon.Frame, ids []uint32) int {
	n := min(len(stack), len(ids))
	stack, ids = stack[len(stack)-n:], ids[len(ids)-n:]
	for i := n - 1; i >= 0; i-- {
		if !t.same(&stack[i], &t.frames[ids[i]]) {
			return n - 1 - i
		}
	}
	return n
}
