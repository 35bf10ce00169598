// Package frames assigns ids to frames and translates the ids of one frame table to those
// of another.
package frames

import (
	"fmt"

	"github.com/gotach/profiler/tachyon"
)

// A Table assigns an id to each frame. Equal frames have the same id. Ids count from 0 in
// order of first use. The zero value is an empty table. Package writer has its own table, of
// strings too.
type Table struct {
	list []tachyon.Frame
	ids  map[tachyon.Frame]uint32
}

// Intern returns the id of f. It adds f to the table if f is new.
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

// List returns the frames by id. The table owns the slice; the caller must not change it.
// Frames that are added later may be missing from it.
func (t *Table) List() []tachyon.Frame { return t.list }

// An Interner is a frame table to which frames can be added, such as a [Table] or a file's
// writer.
type Interner interface {
	Intern(tachyon.Frame) uint32
}

// A Remap translates the ids of one frame table to those of another. It adds a frame to the
// other table at the first stack with that frame.
type Remap struct {
	From []tachyon.Frame // may grow between calls
	To   Interner

	ids    []uint32 // by id in From: the id in To + 1; 0: not added yet
	stack  []uint32
	batch  []tachyon.Sample
	stacks []uint32 // memory of those of batch
}

// Reset replaces the other table by to and forgets all ids. It keeps the memory.
func (m *Remap) Reset(to Interner) {
	m.To = to
	clear(m.ids)
}

// Stack translates a stack of ids in From to ids in the other table. The Remap owns the
// result, which is valid until the next call. Stack returns an error for an id that is not
// in From.
func (m *Remap) Stack(stack []uint32) ([]uint32, error) {
	m.stack = m.stack[:0]
	for _, id := range stack {
		if uint64(id) >= uint64(len(m.From)) {
			return nil, fmt.Errorf("the stack refers to frame %d, but there are %d frames", id, len(m.From))
		}
		m.stack = append(m.stack, m.id(id))
	}
	return m.stack, nil
}

// Samples returns samples with the ids of the other table, up to the first one with an id that is
// not in From. They are valid until the next call.
func (m *Remap) Samples(samples []tachyon.Sample) ([]tachyon.Sample, error) {
	m.batch, m.stacks = m.batch[:0], m.stacks[:0]
	for _, s := range samples {
		stack, err := m.Stack(s.Stack[:min(len(s.Stack), tachyon.MaxDepth)])
		if err != nil {
			return m.batch, fmt.Errorf("sample of thread %d: %w", s.Thread, err)
		}
		from := len(m.stacks)
		m.stacks = append(m.stacks, stack...)
		s.Stack = m.stacks[from:] // stays valid if append moves the memory
		m.batch = append(m.batch, s)
	}
	return m.batch, nil
}

// id translates an id that exists in From.
func (m *Remap) id(id uint32) uint32 {
	if int(id) >= len(m.ids) {
		m.ids = append(m.ids, make([]uint32, len(m.From)-len(m.ids))...)
	}
	if m.ids[id] == 0 {
		m.ids[id] = m.To.Intern(m.From[id]) + 1
	}
	return m.ids[id] - 1
}
