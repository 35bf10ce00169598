package reader

import (
	"errors"
	"io"
	"io/fs"
	"math"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/unfinished"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// Unfinished reports whether the file had no header when it was opened. In that case its
// writer was running or had been killed. The Reader has all samples up to that moment, from
// the file and from the journal beside it, and the provisional metadata of the writer.
func (r *Reader) Unfinished() bool { return r.unfinished }

// A spliced source is an unfinished file with the header and the tail that the file would
// have if its writer finished it now.
type spliced struct {
	source
	head [tachyon.HeaderSize]byte
	off  int64 // file offset at which tail starts
	tail []byte
}

// release implements source.
func (s *spliced) release(from, to int64) {
	if m, ok := s.source.(interface{ release(from, to int64) }); ok {
		m.release(from, min(to, s.off))
	}
}

func (s *spliced) Size() int64 { return s.off + int64(len(s.tail)) }

// ReadAt implements io.ReaderAt.
func (s *spliced) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off >= s.Size() {
		return 0, io.EOF
	}
	if off < tachyon.HeaderSize {
		n = copy(p, s.head[off:])
	}
	if at := off + int64(n); n < len(p) && at < s.off {
		m, err := s.source.ReadAt(p[n:n+int(min(int64(len(p)-n), s.off-at))], at)
		if n += m; n < len(p) && off+int64(n) < s.off {
			return n, err
		}
	}
	if at := off + int64(n); n < len(p) && at >= s.off && at < s.Size() {
		n += copy(p[n:], s.tail[at-s.off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// openUnfinished opens a file without a header together with its journal. It reads all
// samples once to count the samples and the threads.
func (r *Reader) openUnfinished(path string) error {
	st, err := r.loadJournal(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r.errorAt(0, "%w, and there is no journal", ErrUnfinished)
	}
	if err != nil {
		return r.errorAt(0, "%w: %w", ErrUnfinished, err)
	}
	if size := r.src.Size(); st.Point.Offset > max(size, tachyon.HeaderSize) {
		return r.errorAt(size, "%w: the journal continues the file at %d, but the file is shorter", ErrUnfinished, st.Point.Offset)
	}
	if err := r.splice(st, r.src, math.MaxUint32, math.MaxUint32); err != nil {
		return err
	}
	if err := r.openFinished(); err != nil {
		return err
	}
	samples, threads, err := r.count(st.Point)
	if err != nil {
		return err
	}
	if err := r.splice(st, r.src.(*spliced).source, samples, threads); err != nil {
		return err
	}
	r.unfinished = true
	return r.openFinished()
}

func (r *Reader) loadJournal(path string) (*unfinished.State, error) {
	if r.root != nil {
		return unfinished.LoadIn(r.root, path)
	}
	return unfinished.Load(resolved(path))
}

// splice replaces src by a spliced source whose header counts the given numbers of samples
// and threads.
func (r *Reader) splice(st *unfinished.State, file source, samples uint64, threads uint32) error {
	h, tail, err := st.Finish(samples, threads, decode.RawFrame)
	if err != nil {
		return r.errorAt(0, "%w: %w", ErrUnfinished, err)
	}
	r.src = &spliced{source: file, head: wire.EncodeHeader(&h), off: st.Point.Offset, tail: tail}
	return nil
}

// count reads and counts all samples. It returns an error if there are fewer than the
// journal counts at p.
func (r *Reader) count(p journal.Point) (samples uint64, threads uint32, err error) {
	d := r.newDecoder(tachyon.MaxTime)
	d.uncounted = true
	n := newNumbering(r.Size(), p.Threads, math.MaxUint32)
	defer n.free()
	n.lists = &lists{yield: func(*tachyon.Sample, error) bool { samples++; return true }}
	err = d.read(n, true)
	if err != nil {
		return 0, 0, err
	}
	if samples < p.Samples {
		return 0, 0, r.errorAt(p.Offset, "%w: the file has %d samples, but the journal counts %d", ErrUnfinished, samples, p.Samples)
	}
	return samples, uint32(len(n.threads)), nil
}
