// Package reader decodes files in the Tachyon format, in both layouts and byte orders. Package
// tachyon describes the format and has its types. Package stream is above this one: it joins files
// and adds labels. The public package of this name, at the root, is for programs that compute
// something from profiles, and uses both.
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
// [Reader.Batches] yields them with numbers in place of stacks, which is faster. Times are in
// microseconds. A file that is being written, or whose program was killed, is read with the journal
// beside it; see [Reader.Unfinished].
//
// # Damaged files
//
// Files are not trusted. A damaged file causes a [*FormatError] with the offset, never a panic.
// Memory is limited: the tables take at most about twenty times their size in the file, and the
// goroutines of [Reader.Metadata] at most about 50 MiB plus 200 times the file's size. Samples are
// decoded as a stream. Decompression takes at most 16 MiB (a window of 8 MiB), and the threads'
// stacks take at most 32 MiB plus 128 times the file's size. Time is not limited: it grows with the
// decompressed size, which can be 30,000 times that of the file. A program that accepts files from
// strangers should limit the number of samples.
//
// In CPython's layout the Reader accepts the same files as CPython's own reader, with two
// exceptions: CPython treats an unknown compression as none and accepts any times, the Reader
// returns an error, for times if they are after [tachyon.MaxTime]. In the document's layout,
// gotach's default, every count, size and offset must be right.
//
// # Files
//
// Most use only those after them.
//
//   - follow.go, follow_samples.go, follow_facts.go, follow_source.go: a file that is being
//     written, again and again
//   - stream.go: Stream, which is what can be asked of a file or of a part of one
//   - unfinished.go: file and journal read as one
//   - samples.go: samples one by one
//   - metadata.go: session, checksums; records.go: goroutines, objects and stops
//   - batches.go, numbering.go, lists.go: samples with numbers for threads and stacks
//   - decode.go, decodenumbers.go: bytes become samples; the only code that reads their records
//   - zstd.go, ahead.go: decompression, in a goroutine of its own
//   - reader.go, tables.go: Open, header, footer, strings and frames
//   - errors.go: what is wrong with a file, and at which offset
//   - source_mmap.go, source_mmap_linux.go, source_mmap_other.go, source_plain.go, source.go: where
//     bytes come from
package reader

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/infile"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// maxTables limits the size of the tables in bytes. Unlike the samples, tables are read as
// a whole, and a sparse file could claim terabytes.
const maxTables = 1 << 30

// A Reader is an open Tachyon file. All methods may be called from several
// goroutines at once.
type Reader struct {
	name   string
	root   *os.Root // of OpenIn: name is below it; nil: none
	src    source
	header tachyon.Header
	footer wire.Footer
	stats  *tachyon.Statistics
	tables atomic.Pointer[tables] // nil after Compact

	section   tachyon.Section // the record section; its length is 0 if there is none, or of an unknown version
	sectionAt int64           // offset of the string that names it

	unfinished bool

	close func() error
}

// tables are the parts of a file that a Reader keeps in memory.
type tables struct {
	frames []tachyon.Frame
	spare  []tableString // strings after the last one that a frame uses; metadata are among them
}

// Open opens a file. On Unix it maps the file into memory; on other systems it reads the file as
// needed. It opens no pipe or device, except one that this process has open, such as /dev/stdin;
// that is read as a whole. If the file is truncated while it is open, reading returns an error.
//
// Open reads an unfinished file in its present state together with its journal, which is
// app.tach.journal for app.tach. The writer may be running. Without a journal the error
// wraps [ErrUnfinished].
func Open(path string) (r *Reader, err error) {
	for range 5 {
		src, err2 := openSource(path)
		if err2 != nil {
			return nil, err2
		}
		r, err = newReader(path, path, nil, src)
		if !errors.Is(err, ErrUnfinished) {
			return r, err
		}
		// The writer may have changed both files or finished between our reads: try again.
	}
	return nil, err
}

// OpenIn is Open for a file below root, in a folder to which others may write. The file must be a
// regular one. Symbolic links do not lead out of root, and neither the file nor its journal is one.
func OpenIn(root *os.Root, name string) (r *Reader, err error) {
	for range 5 {
		f, info, err2 := infile.OpenIn(root, name, os.O_RDONLY)
		if err2 != nil {
			return nil, err2
		}
		src, err2 := fileSource(f, info)
		if err2 != nil {
			return nil, err2
		}
		if r, err = newReader(name, name, root, src); !errors.Is(err, ErrUnfinished) {
			return r, err
		}
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
	return newReader(name, "", nil, src)
}

// newReader opens src and owns it. path is the path of the file, or empty if src is not a
// file; then there is no journal. It is below root if that is not nil.
func newReader(name, path string, root *os.Root, src source) (*Reader, error) {
	r := &Reader{name: name, root: root, src: src, close: sync.OnceValue(src.Close)}
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

// SampleBytes returns the size of the sample region in the file, in bytes. That is the
// compressed size if the file is compressed.
func (r *Reader) SampleBytes() int64 {
	return int64(r.header.StringOffset) - tachyon.HeaderSize
}

// Statistics returns the statistics of CPython's profiler, nil if the file has none.
func (r *Reader) Statistics() *tachyon.Statistics { return r.stats }

// StatisticsBlock returns them as a file of CPython's layout has them, nil if the file has none.
func (r *Reader) StatisticsBlock() ([]byte, error) { return decode.EncodeStatistics(r.stats) }

// Frames returns the frame table. The elements of [tachyon.Sample].Stack are indices into
// it. The Reader owns the slice; the caller must not change it.
func (r *Reader) Frames() []tachyon.Frame { return r.loaded().frames }

// Compact frees the memory of the file's tables. They are read again when they are needed. If that
// fails, for example because the file was truncated or the Reader closed meanwhile, the file has no
// frames from then on. Compact is for programs that open very many files. It does nothing if the
// file is unfinished.
func (r *Reader) Compact() {
	if !r.unfinished {
		r.tables.Store(nil)
	}
}

// loaded returns the tables, and reads them again after Compact.
func (r *Reader) loaded() *tables {
	if t := r.tables.Load(); t != nil {
		return t
	}
	if r.src == nil { // of a Follower that has read nothing yet
		return &tables{}
	}
	again := &Reader{name: r.name, src: r.src}
	if err := again.openFinished(); err != nil {
		again.tables.Store(&tables{})
	}
	t := again.tables.Load()
	r.tables.Store(t)
	return t
}

// setFrames sets the frame table of an unfinished file.
func (r *Reader) setFrames(list []tachyon.Frame) { r.tables.Store(&tables{frames: list}) }

// open reads everything except the samples. path is that of newReader.
func (r *Reader) open(path string) error {
	size := r.src.Size()
	var head [tachyon.HeaderSize]byte
	n, err := r.src.ReadAt(head[:min(size, tachyon.HeaderSize)], 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return r.ioError(0, err)
	case head != [tachyon.HeaderSize]byte{}:
		err := r.openFinished()
		if err != nil && path != "" && r.journaled(path) && r.openUnfinished(path) == nil {
			return nil // the writer was killed while it was writing the header
		}
		return err
	case path != "" && (n == tachyon.HeaderSize || r.journaled(path)):
		return r.openUnfinished(path)
	case n == tachyon.HeaderSize:
		return r.errorAt(0, "%w", ErrUnfinished)
	}
	return r.openFinished()
}

// journaled reports whether the file has a journal.
func (r *Reader) journaled(path string) bool {
	if r.root == nil {
		return journal.Exists(path)
	}
	info, err := r.root.Lstat(path + journal.Suffix)
	return err == nil && info.Mode().IsRegular()
}

// openFinished reads everything except the samples of a file with a header.
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
		return r.errorAt(size, "%d bytes are too short for a header of %d: not a Tachyon file, or truncated", size, tachyon.HeaderSize)
	}
	h, err := decode.Header(head[:])
	if err != nil {
		return r.errorAt(0, "%w", err)
	}
	r.header = h
	if size < tachyon.HeaderSize+tachyon.FooterSize {
		return r.errorAt(size, "%d bytes are too short for a header and a footer", size)
	}
	end := size - tachyon.FooterSize // end of the tables
	if err := r.checkHeader(uint64(end)); err != nil {
		return err
	}
	var foot [tachyon.FooterSize]byte
	if err := r.readFull(foot[:], end); err != nil {
		return err
	}
	r.footer = decode.Footer(foot[:], decode.Order(&h))
	if h.Layout == tachyon.Document && r.footer.Size != uint64(size) {
		return r.errorAt(end+8, "the footer counts %d bytes, but the file has %d: it may be truncated", r.footer.Size, size)
	}
	return r.readTables(end)
}

// copyTables returns a copy of a part of the file, so that frames and strings stay valid after
// Close.
func (r *Reader) copyTables(from, to int64) ([]byte, error) {
	if n := to - from; n > maxTables {
		return nil, r.errorAt(from, "tables of %d bytes are larger than the limit of %d", n, maxTables)
	}
	b := make([]byte, to-from)
	return b, r.readFull(b, from)
}

// checkHeader checks the header of a file whose footer starts at end.
func (r *Reader) checkHeader(end uint64) error {
	h := &r.header
	strings, frames, compression := int64(32), int64(40), int64(48) // offsets of the fields
	if h.Layout == tachyon.CPython315 {
		strings, frames, compression = 40, 48, 56
		if mode := h.Config & 7; mode > 5 {
			return r.errorAt(60, "unknown profiling mode %d", mode)
		}
	}
	if err := r.checkTimes(); err != nil {
		return err
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

// checkTimes checks the times of the header.
func (r *Reader) checkTimes() error {
	h, start := &r.header, int64(8)
	if h.Layout == tachyon.CPython315 {
		start = 12
	}
	if err := wire.CheckTime("the start", h.Start); err != nil {
		return r.errorAt(start, "%w", err)
	}
	if err := wire.CheckTime("the interval", h.Interval); err != nil {
		return r.errorAt(start+8, "%w", err)
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
