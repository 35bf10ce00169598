package reader

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/unfinished"
	"github.com/gotach/profiler/tachyon"
)

// A Follower reads a file while its writer is running. Each call of [Follower.Poll] reads only the
// samples that are new. The writer does not notice it. A finished file is read by one call.
//
// It keeps the stacks of all samples so far, 12 bytes each, and 24 bytes for each thread.
type Follower struct {
	path string
	file *os.File
	r    Reader // has header and frames, and is not open
	d    decoder
	n    *numbering
	z    *zstd.Decoder // nil: the samples are not compressed
	src  followed
	size int64 // for which the numbering has a budget

	early []uint64 // by thread: how many of its next samples in the file were passed on before, by pending
	batch *Batch   // to fill

	strings []string
	known   unfinished.Known // what was read of the journal
	blocks  decode.Blocks

	session *tachyon.Session
	done    bool
	err     error
}

// ErrReplaced is the error of [Follower.Poll] if there is another file at the path now, or
// another session writes to it.
var ErrReplaced = errors.New("another session writes the file now")

// News is told what a Follower finds. Functions that are nil are not called.
type News struct {
	Batch     func(*Batch)             // new samples; the batch is valid during the call
	Goroutine func(*tachyon.Goroutine) // as [Reader.Goroutines] yields them; may come again
	Object    func(*tachyon.Object)    // as [Reader.Objects] yields them; may come again
	Progress  func(done, total int64)  // bytes of the file read in this call of Poll
}

// Follow opens a file, which may be unfinished or finished. It reads nothing yet.
func Follow(path string) (*Follower, error) {
	path = resolved(path)
	file, _, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	f := &Follower{path: path, file: file}
	f.r.name = path
	return f, nil
}

// Close closes the file.
func (f *Follower) Close() error {
	if f.z != nil {
		f.z.Close()
	}
	f.blocks.Close()
	if f.n != nil {
		f.n.free()
		f.n = nil
	}
	f.err = os.ErrClosed
	return f.file.Close()
}

// Path returns the path of the file, with symbolic links followed.
func (f *Follower) Path() string { return f.path }

// Header returns the file's header. Before the end its numbers of samples and threads are 0. It is
// valid after the first Poll.
func (f *Follower) Header() tachyon.Header { return f.r.header }

// Frames returns the frames so far.
func (f *Follower) Frames() []tachyon.Frame { return f.r.Frames() }

// Session returns the metadata of the session so far, nil if there is none.
func (f *Follower) Session() *tachyon.Session { return f.session }

// Finished reports whether the file has its header, so that nothing will come any more.
func (f *Follower) Finished() bool { return f.done }

// Poll reads what is new since the last call, all of it at the first call. After an error the
// Follower cannot be used any more.
func (f *Follower) Poll(news News) error {
	if f.err != nil || f.done {
		return f.err
	}
	for range 5 {
		f.err = f.poll(news)
		if !errors.Is(f.err, fs.ErrNotExist) && !errors.Is(f.err, errBusy) {
			break
		}
		// The writer finished the file between our reads: try again.
	}
	return f.err
}

var errBusy = errors.New("the writer changed the file")

func (f *Follower) poll(news News) error {
	var head [tachyon.HeaderSize]byte
	if n, err := f.file.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return f.r.ioError(int64(n), err)
	}
	if head != [tachyon.HeaderSize]byte{} {
		return f.finished(news)
	}
	st, err := unfinished.LoadNew(f.path, f.known)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if now, e := os.Stat(f.path); e != nil || !f.same(now) {
			return f.r.errorAt(0, "%w", ErrReplaced)
		}
		if n, _ := f.file.ReadAt(head[:], 0); n == 0 || head == [tachyon.HeaderSize]byte{} {
			return f.r.errorAt(0, "%w, and there is no journal", ErrUnfinished)
		}
		return errBusy
	case errors.Is(err, unfinished.ErrLess):
		return f.r.errorAt(0, "%w", ErrReplaced)
	case err != nil:
		return f.r.errorAt(0, "%w: %w", ErrUnfinished, err)
	}
	h := tachyon.Header{
		Layout: tachyon.Layout(st.Layout), Start: st.Start, Interval: st.Interval, Compression: st.Compression,
		Python: st.Python, Config: st.Config,
	}
	if err := f.begin(h); err != nil {
		return err
	}
	if err := f.tables(st); err != nil {
		return err
	}
	if err := f.facts(st, news); err != nil {
		return err
	}
	permanent := st.Records[:len(st.Records)-st.Pending]
	if f.src.passed > st.Point.Raw+uint64(len(permanent)) {
		return f.r.errorAt(st.Point.Offset, "%w", ErrReplaced)
	}
	f.src.region.limit, f.src.until = st.Point.Offset, st.Point.Raw
	f.src.rest = permanent[min(uint64(len(permanent)), f.src.passed-min(f.src.passed, st.Point.Raw)):]
	f.grow(st.Point.Offset + int64(len(st.Records)))
	if err := f.read(news); err != nil {
		return err
	}
	return f.pending(st.Records[len(permanent):], news)
}

func (f *Follower) same(now os.FileInfo) bool {
	mine, err := f.file.Stat()
	return err == nil && os.SameFile(mine, now)
}

// begin starts the reading of samples, if that was not done.
func (f *Follower) begin(h tachyon.Header) error {
	if f.n != nil {
		if h.Start != f.r.header.Start {
			return f.r.errorAt(0, "%w", ErrReplaced)
		}
		return nil
	}
	f.r.header = h
	if err := f.r.checkTimes(); err != nil {
		return err
	}
	f.n = newNumbering(0, 0, math.MaxUint32)
	f.src.region = growing{file: f.file, off: tachyon.HeaderSize}
	f.src.r = &f.src.region
	if h.Compression == tachyon.CompressionZstd {
		var err error
		// With concurrency 1 the decoder reads no further than the block that is asked for.
		f.z, err = zstd.NewReader(&f.src.region, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(false))
		if err != nil {
			return err
		}
		f.src.r = f.z
	}
	f.d = decoder{r: &f.r, src: &f.src, left: math.MaxUint64, latest: tachyon.MaxTime, buf: make([]byte, chunkSize+padding), uncounted: true}
	f.batch = &Batch{}
	return nil
}

// grow lets threads and stacks take the memory that a file of a size may.
func (f *Follower) grow(size int64) {
	f.n.budget += stateFactor * max(0, size-f.size)
	f.size = max(f.size, size)
}

// finished reads the rest of a file that is finished.
func (f *Follower) finished(news News) error {
	info, err := f.file.Stat()
	if err != nil {
		return f.r.ioError(0, err)
	}
	r, err := newReader(f.path, "", nil, held{f.file, info.Size()}) // a rotation may have deleted it already
	if err != nil {
		return err
	}
	if err := f.begin(r.header); err != nil {
		return err
	}
	if len(r.Frames()) < len(f.Frames()) {
		return f.r.errorAt(0, "%w", ErrReplaced)
	}
	f.r.setFrames(r.Frames())
	f.src.region.limit, f.src.until, f.src.rest = tachyon.HeaderSize+r.SampleBytes(), math.MaxUint64, nil
	if r.header.Compression == tachyon.CompressionNone {
		f.src.until = uint64(r.SampleBytes())
	}
	f.grow(r.Size())
	m, err := r.Overview()
	if err != nil {
		return err
	}
	f.session = m.Session
	if news.Goroutine != nil {
		for g, err := range r.Goroutines() {
			if err != nil {
				return err
			}
			news.Goroutine(g)
		}
	}
	if news.Object != nil {
		for o, err := range r.Objects() {
			if err != nil {
				return err
			}
			news.Object(o)
		}
	}
	if err := f.read(news); err != nil {
		return err
	}
	f.r.header, f.done = r.header, true
	return nil
}
