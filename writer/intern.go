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
