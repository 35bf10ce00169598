package writer

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gotach/profiler/internal/tachyon"
)

// AddMetadata adds a piece of gotach's own metadata to the file being written:
// v as JSON, with "gotach": kind as its first key. A v that is not an object
// goes under a key named like the kind. See tachyon.Metadata for the kinds; any
// other kind is kept by readers that do not know it.
func (w *Writer) AddMetadata(kind string, v any) error {
	if w.closed {
		return ErrClosed
	}
	b, err := encodeMetadata(kind, v)
	if err != nil {
		return fmt.Errorf("tachyon writer: metadata %q: %w", kind, err)
	}
	w.meta = append(w.meta, b)
	return nil
}

func encodeMetadata(kind string, v any) ([]byte, error) {
	name, err := json.Marshal(kind)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"gotach":`), name...)
	switch {
	case string(b) == "{}":
		return append(out, '}'), nil
	case b[0] == '{':
		return append(append(out, ','), b[1:]...), nil
	}
	out = append(append(out, ','), name...)
	return append(append(append(out, ':'), b...), '}'), nil
}

// Close finishes the file and, if Create made it, closes it. After an error of
// the file it finishes what was written before, as far as the file lets it, and
// returns that first error. Further calls return the same again.
func (w *Writer) Close() error {
	if w.closed {
		if w.err == ErrClosed {
			return nil
		}
		return w.err
	}
	w.closed = true
	err := w.finish(w.err)
	if w.own != nil {
		if cerr := w.own.Close(); err == nil {
			err = cerr
		}
	}
	w.err = err
	if err == nil {
		w.err = ErrClosed
	}
	w.threads, w.out, w.meta = threadSet{}, region{}, nil // of no use any more
	return err
}

// nextFile finishes a file that can take no more samples and begins another.
func (w *Writer) nextFile() error {
	if w.own == nil {
		w.err = ErrTooManySamples
		return w.err
	}
	if w.err = w.finish(nil); w.err != nil {
		return w.err
	}
	w.part++
	f, err := create(partName(w.path, w.part))
	if err != nil {
		w.err, w.f = err, nil // the file behind us is finished
		return err
	}
	if w.err = w.own.Close(); w.err != nil {
		f.Close()
		w.f = nil
		return w.err
	}
	w.own, w.f, w.meta = f, f, nil
	if w.err = w.begin(); w.err != nil {
		w.f = nil
	}
	return w.err
}

// partName is the name of the nth file of a session: app.tach, app.2.tach, ...
func partName(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), n, ext)
}

// finish completes the file. Given an error that came before, or one of its
// own, it tries to make a file of what came before that error.
func (w *Writer) finish(err error) error {
	if w.f == nil {
		return err
	}
	if err == nil {
		for t := range w.threads.all {
			w.flushRepeats(t)
		}
		w.checkLimits()
		if err = w.out.finish(); err == nil {
			err = w.tail(w.out.off)
		}
		if err == nil {
			return nil
		}
	}
	if err == ErrTooManySamples {
		return w.finish(nil)
	}
	for p := range w.out.points {
		if w.finishAt(p) == nil {
			return fmt.Errorf("%w (the file was finished with %d of %d samples)", err, p.samples, w.samples)
		}
	}
	return err
}

// finishAt completes the file at a point that the sample region had come to.
// Earlier points leave more room for the tables on a full disk: what lies
// behind the point is overwritten.
func (w *Writer) finishAt(p point) error {
	if _, err := w.f.Seek(p.off, io.SeekStart); err != nil {
		return err
	}
	if _, err := w.f.Write(w.out.cut(p)); err != nil {
		return err
	}
	return w.tail(w.out.off)
}

// tail writes all that comes after the sample region, which ends at off, where
// the file stands, and then the header.
func (w *Writer) tail(off int64) error {
	h := tachyon.Header{
		Layout: w.o.Layout, Start: w.o.Start, Interval: w.o.Interval,
		Samples: w.out.samples, Threads: w.out.threads,
		StringOffset: uint64(off),
		Python:       w.o.CPython.Version, Config: w.o.CPython.Config,
	}
	if w.out.zw != nil {
		h.Compression = tachyon.CompressionZstd
	}
	c := &counter{w: w.f, n: off, far: &w.out.far}
	b := bufio.NewWriterSize(c, 64<<10)
	nstrings := len(w.table.strings) + len(w.meta)
	w.strings(b)
	if len(w.meta) > 0 || w.part > 1 {
		sum, err := encodeMetadata(tachyon.KindChecksum, tachyon.Checksum{CRC32C: w.out.crc})
		if err != nil {
			return err
		}
		writeString(b, string(sum))
		nstrings++
	}
	h.FrameOffset = uint64(c.n) + uint64(b.Buffered())
	w.frames(b)
	if w.o.Layout == CPython315 && w.o.CPython.Stats != nil {
		stats := w.o.CPython.Stats.encode()
		b.Write(stats[:])
	}
	end := uint64(c.n) + uint64(b.Buffered()) + tachyon.FooterSize
	foot := tachyon.Footer{Strings: uint32(nstrings), Frames: uint32(len(w.table.frames)), Size: end}
	fb := foot.Encode()
	b.Write(fb[:])
	if err := b.Flush(); err != nil {
		return err
	}
	if err := w.truncate(int64(end)); err != nil {
		return err
	}
	if _, err := w.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	hb := h.Encode()
	_, err := w.f.Write(hb[:])
	return err
}

// truncate ends the file at size if more than that was written to it.
func (w *Writer) truncate(size int64) error {
	if w.out.far <= size {
		return nil
	}
	t, ok := w.f.(interface{ Truncate(int64) error })
	if !ok {
		return fmt.Errorf("tachyon writer: cannot shorten a %T", w.f)
	}
	return t.Truncate(size)
}

func (w *Writer) strings(b *bufio.Writer) {
	for _, s := range w.table.strings {
		writeString(b, s)
	}
	for _, m := range w.meta {
		b.Write(binary.AppendUvarint(b.AvailableBuffer(), uint64(len(m))))
		b.Write(m)
	}
}

func writeString(b *bufio.Writer, s string) {
	b.Write(binary.AppendUvarint(b.AvailableBuffer(), uint64(len(s))))
	b.WriteString(s)
}

func (w *Writer) frames(b *bufio.Writer) {
	for i := range w.table.keys {
		k := &w.table.keys[i]
		p := b.AvailableBuffer()
		p = binary.AppendUvarint(p, uint64(k.file))
		p = binary.AppendUvarint(p, uint64(k.fn))
		p = binary.AppendVarint(p, int64(k.line))
		if w.table.withSpans {
			p = binary.AppendVarint(p, int64(k.span.Lines))
			p = binary.AppendVarint(p, int64(k.span.Column)-1)
			p = binary.AppendVarint(p, int64(k.span.Columns))
			p = append(p, byte(k.span.Opcode-1)) // none is 255
		}
		b.Write(p)
	}
}

// A counter knows the file offset that the file has come to.
type counter struct {
	w   io.Writer
	n   int64
	far *int64 // the furthest one ever
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	*c.far = max(*c.far, c.n)
	return n, err
}
