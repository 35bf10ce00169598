// Package frames numbers frames and translates the numbers of one frame table
// to those of another.
package frames

import (
	"fmt"

	"github.com/gotach/profiler/tachyon"
)

// A Table gives each frame an id: equal frames have the same one, and ids count
// from 0 in order of first use. The zero value is an empty table. The writer of
// files has a table of its own, which holds strings and looks frames up without
// hashing them.
type Table struct {
	list []tachyon.Frame
	ids  map[tachyon.Frame]uint32
}

// Intern returns the id of f, which is added to the table if it is new.
func (t *Table) Intern(f tachyon.Frame) uint32 {
	id, ok := t.ids[f]
	if !ok {
		if t.ids == nil {
			t.ids = make(map[tachyon.Frame]uint32)
		}
		id = uint32(len(t.list))
		t.ids[f] = id
		t.list = append(t.list, f)
	}
	return id
}

// List returns the frames by id. The slice is the table's own and must not be
// changed; later frames may be missing from it.
func (t *Table) List() []tachyon.Frame { return t.list }

// An Interner is a frame table that takes frames, such as a [Table] or a file's writer.
type Interner interface {
	Intern(tachyon.Frame) uint32
}

// A Remap translates the ids of one frame table to those of another. The other
// table gets a frame when the first stack names it, or all frames at once from
// [Remap.All].
type Remap struct {
	From []tachyon.Frame // may grow between calls
	To   Interner

	ids   []uint32 // by id in From: the id in To + 1; 0 is none yet
	stack []uint32
}

// Reset makes to the other table, of which no ids are known yet. It keeps the memory.
func (m *Remap) Reset(to Interner) {
	m.To = to
	clear(m.ids)
}

// All adds all frames of From to the other table, in order.
func (m *Remap) All() {
	for id := range m.From {
		m.id(uint32(id))
	}
}

// Stack returns a stack of ids in From as ids in the other table. The result is
// the Remap's own and valid until the next call. A frame that From does not have
// is an error.
func (m *Remap) Stack(stack []uint32) ([]uint32, error) {
	m.stack = m.stack[:0]
	for _, id := range stack {
		if uint64(id) >= uint64(len(m.From)) {
			return nil, fmt.Errorf("frame %d of %d", id, len(m.From))
		}
		m.stack = append(m.stack, m.id(id))
	}
	return m.stack, nil
}

// id translates an id that is within From.
func (m *Remap) id(id uint32) uint32 {
	if int(id) >= len(m.ids) {
		m.ids = append(m.ids, make([]uint32, len(m.From)-len(m.ids))...)
	}
	if m.ids[id] == 0 {
		m.ids[id] = m.To.Intern(m.From[id]) + 1
	}
	return m.ids[id] - 1
}
