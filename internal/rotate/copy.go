package rotate

import (
	"cmp"
	"fmt"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A Copy writes samples to one more file. The frame ids in the samples are those of a Writer or a
// Nothing, which must be used from the same goroutine.
type Copy struct {
	*writer.Writer
	table *frames.Table
	translator
}

// Copy returns a Copy to the file f.
func (w *Writer) Copy(f *writer.Writer) *Copy { return newCopy(&w.table, f) }

func newCopy(t *frames.Table, f *writer.Writer) *Copy {
	c := &Copy{Writer: f, table: t}
	c.remap.Reset(f)
	return c
}

// A Nothing takes samples and writes no file. Only Copies of it keep them.
type Nothing struct{ table frames.Table }

// Copy returns a Copy to the file f.
func (n *Nothing) Copy(f *writer.Writer) *Copy { return newCopy(&n.table, f) }

// Intern returns the id of a frame.
func (n *Nothing) Intern(f tachyon.Frame) uint32 { return n.table.Intern(f) }

// WriteBatch is that of Writer.
func (n *Nothing) WriteBatch(samples []tachyon.Sample) (int, error) { return len(samples), nil }

// WriteRecords does nothing.
func (n *Nothing) WriteRecords(*tachyon.Records) error { return nil }

// Forget does nothing.
func (n *Nothing) Forget(uint64, uint32) error { return nil }

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
