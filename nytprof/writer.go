package nytprof

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zlib"
)

// A Writer writes chunks to a file. NewWriter makes one.
type Writer struct {
	w   io.Writer // the file, or zlib's writer to it
	z   *zlib.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer to w, which it writes in large pieces. The first chunk
// must be a *[Version]. The Writer does not check whether the others make sense.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, buf: make([]byte, 0, bufferSize+4<<10)}
}

// Write writes a chunk and does not keep it. A *[StartDeflate] makes the Writer
// compress all chunks after it. Equal chunks give equal bytes.
func (w *Writer) Write(c Chunk) error {
	if w.err != nil {
		return w.err
	}
	switch c := c.(type) {
	case *Comment:
		w.checkLine(c, "", c.Text)
	case *Attribute:
		w.checkLine(c, c.Key, c.Value)
	case *Option:
		w.checkLine(c, c.Key, c.Value)
	}
	if w.err != nil {
		return w.err
	}
	w.buf = c.encode(w.buf)
	if d, ok := c.(*StartDeflate); ok {
		w.deflate(d.Level)
	} else if len(w.buf) >= bufferSize {
		w.flush()
	}
	return w.err
}

// checkLine returns an error for text that would be read as something else.
func (w *Writer) checkLine(c Chunk, key, value string) {
	if strings.ContainsAny(key, "=\n") || strings.Contains(value, "\n") {
		w.err = fmt.Errorf("NYTProf: %s %q=%q does not fit in a line", c.Tag(), key, value)
	}
}

func (w *Writer) flush() {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.w.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

func (w *Writer) deflate(level int) {
	w.flush()
	if w.err != nil {
		return
	}
	if w.z != nil {
		w.err = errors.New("NYTProf: START_DEFLATE twice")
		return
	}
	if level == 0 {
		level = 6
	}
	w.z, w.err = zlib.NewWriterLevel(w.w, level)
	w.w = w.z
}

// Close writes what is buffered. It does not close the file.
func (w *Writer) Close() error {
	w.flush()
	if w.z != nil {
		if err := w.z.Close(); w.err == nil {
			w.err = err
		}
		w.z = nil
	}
	if w.err == nil {
		w.err = errClosed
		return nil
	}
	if w.err == errClosed {
		return nil
	}
	return w.err
}

var errClosed = errors.New("NYTProf: the writer is closed")
