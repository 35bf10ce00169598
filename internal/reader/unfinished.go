package reader

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/unfinished"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// Unfinished reports whether the file had no header when it was opened. In that case its writer was
// running or had been killed. The Reader has all samples up to that moment, from the file and from
// the journal beside it, one more of each goroutine that waited then, and the provisional metadata
// of the writer.
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
	all, err := r.Tally(st.Point)
	if err != nil {
		return err
	}
	all.Extend(st)
	if err := r.splice(st, r.src.(*spliced).source, all.Samples, all.Threads); err != nil {
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

// A Tally is what only a reader of all samples knows of an unfinished file.
type Tally struct {
	Samples uint64
	Threads uint32
	waits   []byte // a REPEAT record for each goroutine that waited at the end
	waiting uint64 // number of these
}

// Extend adds the samples of goroutines that waited at the end.
func (t *Tally) Extend(st *unfinished.State) {
	if st.Lost {
		return
	}
	st.Records, t.Samples = append(slices.Clip(st.Records), t.waits...), t.Samples+t.waiting
}

// Tally reads all samples of an unfinished file, whose header need not have the right counts. It
// returns an error if there are fewer than the journal counts at p.
func (r *Reader) Tally(p journal.Point) (t Tally, err error) {
	d := r.newDecoder(tachyon.MaxTime)
	d.uncounted = true
	n := newNumbering(r.Size(), p.Threads, math.MaxUint32)
	defer n.free()
	var latest []tachyon.Status // by thread
	n.lists = &lists{yield: func(s *tachyon.Sample, _ error) bool {
		t.Samples++
		latest = append(latest, make([]tachyon.Status, len(n.threads)-len(latest))...)
		latest[n.last] = s.Status
		return true
	}}
	if err = d.read(n, true); err != nil {
		return t, err
	}
	if t.Samples < p.Samples {
		return t, r.errorAt(p.Offset, "%w: the file has %d samples, but the journal counts %d", ErrUnfinished, t.Samples, p.Samples)
	}
	t.Threads = uint32(len(n.threads))
	r.waits(&t, n.threads[:len(latest)], latest)
	return t, nil
}

// waits adds a sample for each goroutine that waited when the journal had its latest progress. The
// sampler knew it then, but a long wait has a sample only now and then, and at its end.
// [tachyon.Records] says how a reader knows that a goroutine has not ended.
func (r *Reader) waits(t *Tally, threads []numbered, latest []tachyon.Status) {
	m, err := r.Overview()
	if err != nil || m.Session == nil || m.Session.Unwritten > 0 { // where samples were dropped, ends of goroutines were too
		return
	}
	start := r.header.Start
	end := start + uint64(m.Session.Duration.Microseconds())
	last := map[uint64]uint64{} // of those that may have waited
	for i := range threads {
		const runs = tachyon.OnCPU | tachyon.HasGIL | tachyon.GILRequested
		if th := &threads[i]; th.interpreter == tachyon.User && th.time < end && latest[i]&runs == 0 {
			last[th.id] = th.time
		}
	}
	alive := map[uint64]bool{}
	for g, err := range r.Goroutines() {
		if err != nil {
			return // whoever reads the metadata gets the error
		}
		if at, ok := last[g.ID]; ok {
			alive[g.ID] = start+g.Last < at
		}
	}
	for i := range threads {
		th := &threads[i]
		if at, ok := last[th.id]; ok && alive[th.id] && th.interpreter == tachyon.User {
			t.waits = binary.LittleEndian.AppendUint64(t.waits, th.id)
			t.waits = binary.LittleEndian.AppendUint32(t.waits, th.interpreter)
			t.waits = append(binary.AppendUvarint(append(t.waits, wire.Repeat, 1), end-at), byte(latest[i]&^tachyon.Moved))
			t.waiting++
		}
	}
}
