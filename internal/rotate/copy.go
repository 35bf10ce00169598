package rotate

import (
	"cmp"
	"fmt"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A Copy writes samples to one more file. The frame ids in the samples are those of a Writer or of a
// table, which must be used from the same goroutine.
type Copy struct {
	*writer.Writer
	table *frames.Table
	translator
}

// Copy returns a Copy to the file f.
func (w *Writer) Copy(f *writer.Writer) *Copy { return NewCopy(&w.table, f) }

// NewCopy returns a Copy to the file f, for the frame ids of a table.
func NewCopy(t *frames.Table, f *writer.Writer) *Copy {
	c := &Copy{Writer: f, table: t}
	c.remap.Reset(f)
	return c
}

// WriteBatch is that of Writer.
func (c *Copy) WriteBatch(samples []tachyon.Sample) (n int, err error) {
	c.remap.From = c.table.List()
	samples, unknown := c.translate(samples)
	n, err = c.Writer.WriteBatch(samples)
	return n, cmp.Or(err, unknown)
}

// A translator translates the frame ids of samples to those of a file.
type translator struct {
	remap frames.Remap
	batch []tachyon.Sample // samples with the file's ids
	ids   []uint32         // memory of the stacks of batch
}

// translate returns samples with the file's frame ids, up to the first sample with an
// unknown frame. They are valid until the next call.
func (t *translator) translate(samples []tachyon.Sample) ([]tachyon.Sample, error) {
	t.batch, t.ids = t.batch[:0], t.ids[:0]
	for _, s := range samples {
		stack, err := t.remap.Stack(s.Stack[:min(len(s.Stack), tachyon.MaxDepth)])
		if err != nil {
			return t.batch, fmt.Errorf("rotate: sample of thread %d: %w", s.Thread, err)
		}
		from := len(t.ids)
		t.ids = append(t.ids, stack...)
		s.Stack = t.ids[from:] // stays valid if append moves t.ids
		t.batch = append(t.batch, s)
	}
	return t.batch, nil
}
