package rotate

import (
	"cmp"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A Copy writes samples to one more file. The frame ids in the samples are those of a Writer, which
// must be used from the same goroutine.
type Copy struct {
	*writer.Writer
	of *Writer
	translator
}

// Copy returns a Copy to the file f.
func (w *Writer) Copy(f *writer.Writer) *Copy {
	c := &Copy{Writer: f, of: w}
	c.remap.Reset(f)
	return c
}

// WriteBatch is that of Writer.
func (c *Copy) WriteBatch(samples []tachyon.Sample) (n int, err error) {
	c.remap.From = c.of.table.List()
	samples, unknown := c.translate(samples)
	n, err = c.Writer.WriteBatch(samples)
	return n, cmp.Or(err, unknown)
}

// Objects is that of Writer.
func (c *Copy) Objects(list []tachyon.Object) error {
	return c.WriteRecords(&tachyon.Records{Objects: list})
}
