// Package reader reads profiles in the Tachyon format, in both layouts and byte
// orders. What a profile is made of is described in package tachyon.
//
//	r, err := reader.Open("app.tach")
//	if err != nil { … }
//	defer r.Close()
//	for s, err := range r.Samples() {
//		if err != nil { … }
//		for _, id := range s.Stack { // innermost first
//			f := r.Frames()[id]
//			…
//		}
//	}
//
// [Weighted] yields the samples with the time that each stands for. Times are in
// microseconds. A file that is being written, or whose program was killed, is read
// with the journal beside it, see [Reader.Unfinished].
//
// # Damaged files
//
// Files are not trusted. A damaged one gives a [*FormatError] with the offset,
// never a panic. Memory is bounded: the tables take at most some twenty times
// their size in the file. The samples are decoded as a stream, with at most 16 MiB
// for decompression (a window of 8 MiB) and, for the threads' stacks, at most
// 32 MiB plus 128 times the file's size. Time is not bounded: it grows with the
// decompressed size, which can be 30,000 times the file's. A program that takes
// files from strangers should count samples and stop.
//
// In CPython's layout the Reader accepts what CPython's own reader accepts, except
// an unknown compression, which that takes for none. In the document's layout,
// which is gotach's, every count, size and offset has to be right.
package reader

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// maxTables bounds the tables, which are read whole, unlike the samples. A sparse
// file may seem to have terabytes of them.
const maxTables = 1 << 30

// A Reader is an open Tachyon file. All methods may be called from several
// goroutines at once.
type Reader struct {
	name   string
	src    source
	header tachyon.Header
	footer wire.Footer
	stats  *tachyon.Statistics
	frames []tachyon.Frame
	spare  []spareString // strings after the last one that a frame uses

	unfinished bool

	close func() error
}

// Open opens a file. On Unix it is mapped into memory, elsewhere read as needed.
// Anything but a regular file, such as a pipe, is read whole. If the file is
// truncated while it is open, reading returns an error.
//
// An unfinished file is opened with its journal, app.tach.journal beside app.tach,
// in its present state; the writer may be running. Without a journal the error is
// [ErrUnfinished].
func Open(path string) (r *Reader, err error) {
	for range 5 {
		src, err2 := openSource(path)
		if err2 != nil {
			return nil, err2
		}
		r, err = newReader(path, path, src)
		if !errors.Is(err, ErrUnfinished) {
			return r, err
		}
		// The writer may have changed both files between our reads, or finished.
	}
	return nil, err
}

// New reads a whole file from r, such as os.Stdin, and then opens it. If r has a
// method Name, as an *os.File has, errors contain that name.
func New(r io.Reader) (*Reader, error) {
	src, err := readAll(r)
	if err != nil {
		return nil, err
	}
	name := ""
	if n, ok := r.(interface{ Name() string }); ok {
		name = n.Name()
	}
	return newReader(name, "", src)
}

// newReader opens src, which it then owns. It is the file at path; an empty path
// is that of no file.
func newReader(name, path string, src source) (*Reader, error) {
	r := &Reader{name: name, src: src, close: sync.OnceValue(src.Close)}
	if err := r.open(path); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the file. Frames and strings stay valid. Further calls return the
// same error.
func (r *Reader) Close() error { return r.close() }

// Header returns the file's header.
func (r *Reader) Header() tachyon.Header { return r.header }

// Size returns the size of the file in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// SampleBytes returns the size of the sample region in the file, in bytes,
// compressed if the file is.
func (r *Reader) SampleBytes() int64 {
	return int64(r.header.StringOffset) - tachyon.HeaderSize
}

// Statistics returns the statistics of CPython's profiler, nil if the file has none.
func (r *Reader) Statistics() *tachyon.Statistics { return r.stats }

// Frames returns the frame table. The elements of [tachyon.Sample].Stack are
// indices into it. It is the Reader's own and must not be changed.
func (r *Reader) Frames() []tachyon.Frame { return r.frames }

// open reads all but the samples. The path is newReader's.
func (r *Reader) open(path string) error {
	size := r.src.Size()
	var head [tachyon.HeaderSize]byte
	n, err := r.src.ReadAt(head[:min(size, tachyon.HeaderSize)], 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return r.ioError(0, err)
	case head != [tachyon.HeaderSize]byte{}:
		err := r.openFinished()
		if err != nil && path != "" && journal.Exists(path) && r.openUnfinished(path) == nil {
			return nil // the writer was killed while it wrote the header
		}
		return err
	case path != "" && (n == tachyon.HeaderSize || journal.Exists(path)):
		return r.openUnfinished(path)
	case n == tachyon.HeaderSize:
		return r.errorAt(0, "%w", ErrUnfinished)
	}
	return r.openFinished()
}

// openFinished reads all but the samples of a file with a header.
func (r *Reader) openFinished() error {
	size := r.src.Size()
	if size == 0 {
		return r.errorAt(0, "the file is empty")
	}
	var head [tachyon.HeaderSize]byte
	n, err := r.src.ReadAt(head[:min(size, tachyon.HeaderSize)], 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return r.ioError(0, err)
	case n < tachyon.HeaderSize:
		return r.errorAt(size, "%d bytes are too short for a header of %d", size, tachyon.HeaderSize)
	}
	h, err := wire.DecodeHeader(head[:])
	if err != nil {
		return r.errorAt(0, "%w", err)
	}
	r.header = h
	if size < tachyon.HeaderSize+tachyon.FooterSize {
		return r.errorAt(size, "%d bytes are too short for a header and a footer", size)
	}
	end := size - tachyon.FooterSize // of the tables
	if err := r.checkHeader(uint64(end)); err != nil {
		return err
	}
	if n := size - int64(h.StringOffset); n > maxTables {
		return r.errorAt(int64(h.StringOffset), "tables of %d bytes are larger than the limit of %d", n, maxTables)
	}
	// Tables and footer are copied out, so that nothing handed out depends on the file.
	b := make([]byte, size-int64(h.StringOffset))
	if err := r.readFull(b, int64(h.StringOffset)); err != nil {
		return err
	}
	foot := b[len(b)-tachyon.FooterSize:]
	r.footer = wire.DecodeFooter(foot, wire.Order(&h))
	if h.Layout == tachyon.Document && r.footer.Size != uint64(size) {
		return r.errorAt(end+8, "the footer says %d bytes, the file has %d: it may be truncated", r.footer.Size, size)
	}
	return r.readTables(b[:len(b)-tachyon.FooterSize])
}

// checkHeader checks the header of a file whose footer starts at end.
func (r *Reader) checkHeader(end uint64) error {
	h := &r.header
	strings, frames, compression := int64(32), int64(40), int64(48) // where the fields are
	if h.Layout == tachyon.CPython315 {
		strings, frames, compression = 40, 48, 56
		if mode := h.Config & 7; mode > 5 {
			return r.errorAt(60, "unknown profiling mode %d", mode)
		}
	}
	switch {
	case h.StringOffset > end:
		return r.errorAt(strings, "the string table at %d is after the footer at %d: the file is damaged or truncated", h.StringOffset, end)
	case h.StringOffset < tachyon.HeaderSize:
		return r.errorAt(strings, "the string table at %d is inside the header", h.StringOffset)
	case h.FrameOffset < h.StringOffset || h.FrameOffset > end:
		return r.errorAt(frames, "the frame table at %d is not between string table and footer, %d to %d", h.FrameOffset, h.StringOffset, end)
	case h.Compression > tachyon.CompressionZstd:
		return r.errorAt(compression, "unknown compression %d", h.Compression)
	}
	return nil
}

// readFull reads len(b) bytes at an offset.
func (r *Reader) readFull(b []byte, off int64) error {
	if n, err := r.src.ReadAt(b, off); n < len(b) {
		return r.ioError(off+int64(n), err)
	}
	return nil
}

// ioError returns a FormatError for a failed read at an offset.
func (r *Reader) ioError(off int64, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &FormatError{File: r.name, Offset: off, Err: fmt.Errorf("reading: %w", err)}
}
