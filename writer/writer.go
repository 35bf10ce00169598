// Package writer turns samples into a Tachyon file; the layout of the file is
// described in package tachyon.
//
//	w, err := writer.Create("app.tach", writer.Options{Start: start, Interval: 1000})
//	id := w.Intern(tachyon.Frame{File: "main.go", Func: "main.main", Line: 12})
//	err = w.Write(&tachyon.Sample{Thread: 1, Time: start + 1000, Stack: []uint32{id}})
//	err = w.Close()
//
// Samples go through a buffer of 512 KB, then through zstd, to the file; the
// tables of strings and frames follow when the file is finished, and the header
// comes last, so that a file with a header is a whole one.
//
// # Kills
//
// A file that Create makes survives its program: beside it, in app.tach.journal,
// lies what is not in it yet, the buffer itself included, in memory that is
// mapped from that file. So a sample is safe when Write returns, at the cost of
// 1 to 3 percent of the throughput and no system call. Package reader reads file
// and journal as they stand, package recovery finishes the file. Close deletes
// the journal. Without memory-mapped files, as on Windows, there is none.
//
// # Compression
//
// The default is klauspost's level for zstd's 5, with a window of 2 MiB and no
// goroutine of its own. Options.Compact takes the next better level instead. On
// 200,000 samples of a CPU-bound service (5 threads, mean depth 38.5) the
// default takes 5.43 bytes and 0.24 µs a sample, the better level 5.20 bytes
// and 0.40 µs; zstd's own level 5 takes 5.14 bytes.
//
// # Memory
//
// A writer takes about 3 MB, most of it zstd's, plus its tables and for each
// thread some 500 bytes: its last stack and its pending repeats. While there are
// few threads each may hold back up to 16 KB of repeats, all together 1 MB.
// Threads that will not be seen again can be dropped with [Writer.Forget].
package writer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// Options say what kind of file to write. The zero value is the document's
// layout, compressed, with times that start at 0.
type Options struct {
	Layout       tachyon.Layout // 0 is Document
	Uncompressed bool           // no zstd
	Compact      bool           // zstd's better level; see the package comment for what it costs
	Start        uint64         // µs; the clock of the samples' times, usually Unix time
	Interval     uint64         // µs between two ticks, as asked
	CPython      *CPythonInfo   // what only CPython315 has; nil says wall clock and no statistics
	NoJournal    bool           // keep nothing on disk to finish the file with if the program is killed

	// Sync bounds what a crash of the machine can take, of a Create'd file with a
	// journal: the samples of so long, and of as long as the disk takes to sync. 0
	// leaves it to the kernel. It takes a goroutine, and runs of repeats are cut short.
	Sync time.Duration
}

// ErrClosed is what the methods of a closed Writer return.
var ErrClosed = errors.New("tachyon writer: already closed")

// ErrTooManySamples says that a file in the document's layout has reached the
// 2^32-1 samples that its header can count. Close then finishes the file with
// them and returns nil.
var ErrTooManySamples = errors.New("tachyon writer: the document's layout holds no more than 4294967295 samples")

// ErrCPythonLimit says that a file has more than 1 GiB of samples before
// compression, which CPython 3.15 refuses to read.
var ErrCPythonLimit = errors.New("more than 1 GiB of samples before compression: CPython 3.15 will refuse to read the file")

// A Writer writes one file. It must not be used from two goroutines at once.
//
// The first error of the file sticks: from then on every sample is refused with
// it, and Close finishes the file with the samples before it.
type Writer struct {
	o   Options
	f   io.WriteSeeker
	own *os.File // f, if the writer opened it

	out     region
	table   table
	threads threadSet
	meta    []string // in order
	stats   []byte   // to stand before the footer

	j        *journal.Writer // may be nil
	finished bool            // the file has its header
	sync     *syncer         // nil: none

	samples uint64 // pending ones too
	limit   uint64 // how many samples the header can count

	ids    [tachyon.MaxDepth]uint32 // WriteFrames' stack
	err    error                    // the first one
	closed bool
	warn   error
}

// Create makes a new file (mode 0600) or empties the one that is there, and
// owns it: Close closes it. A symbolic link is followed if it is the user's own
// or root's.
func Create(path string, o Options) (*Writer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	return newWriter(nil, path, o)
}

// New writes to f from its beginning on and leaves closing it to the caller.
func New(f io.WriteSeeker, o Options) (*Writer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return newWriter(f, "", o)
}

// create opens a file that is emptied once it is known to be the writer's alone.
func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
}

// empty cuts a regular file to nothing; others are as they are.
func empty(f *os.File) error {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

func (o *Options) check() error {
	switch o.Layout {
	case 0:
		o.Layout = tachyon.Document
	case tachyon.Document, tachyon.CPython315:
	default:
		return fmt.Errorf("tachyon writer: no layout %d", o.Layout)
	}
	if o.CPython == nil {
		o.CPython = &CPythonInfo{Config: configWall}
	}
	c := *o.CPython // the caller may change theirs
	o.CPython = &c
	return c.check()
}

// newWriter writes to f, or if that is nil to a file of its own at path.
func newWriter(f io.WriteSeeker, path string, o Options) (*Writer, error) {
	w := &Writer{o: o, f: f, limit: math.MaxUint32}
	if o.Layout == tachyon.CPython315 {
		w.limit = math.MaxUint64
		var err error
		if w.stats, err = wire.EncodeStatistics(o.CPython.Stats); err != nil {
			return nil, fmt.Errorf("tachyon writer: %w", err)
		}
	}
	w.table.init(o.Layout)
	w.threads.init(o.Start)
	if err := w.out.init(o); err != nil {
		return nil, err
	}
	if err := w.begin(path); err != nil {
		return nil, err
	}
	return w, nil
}

// begin starts a file: its place for the header, then the sample region. The
// header stays zero until the file is finished. A file of the writer's own is at
// path. After an error nothing is left of what begin made, but for an empty file.
func (w *Writer) begin(path string) (err error) {
	if w.f == nil {
		defer func() {
			if err != nil {
				_ = w.endJournal(true)
				w.own.Close() // nil gives an error alone
				w.own, w.f = nil, nil
			}
		}()
		// The journal comes first: no file is ever without one, and it tells if
		// another process is at work here.
		if err := w.startJournal(path); err != nil {
			return err
		}
		if w.own, err = create(path); err != nil {
			return err
		}
		w.f = w.own
		if err := empty(w.own); err != nil {
			return err
		}
	}
	if _, err := w.f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("tachyon writer: the file must be seekable: %w", err)
	}
	var zero [tachyon.HeaderSize]byte
	if _, err := w.f.Write(zero[:]); err != nil {
		return err
	}
	w.out.begin(w.f)
	w.startSync()
	return nil
}

// Intern returns the id of a frame for Sample.Stack, the same for equal frames.
// It keeps f's strings: clone them first if they are pieces of something large.
func (w *Writer) Intern(f tachyon.Frame) uint32 {
	if w.j == nil {
		return w.table.frame(&f)
	}
	return w.internLogged(&f)
}

func (w *Writer) internLogged(f *tachyon.Frame) uint32 {
	var err error // w.err has it
	defer w.fault(debug.SetPanicOnFault(true), &err)
	id := w.table.frame(f)
	if w.err == nil {
		w.err = w.table.err
	}
	return id
}

// Write adds a sample whose stack is given as ids from Intern. Of a stack
// deeper than 256 the innermost 256 frames are kept. The sample stays the
// caller's.
func (w *Writer) Write(s *tachyon.Sample) error {
	if w.err != nil {
		return w.err
	}
	if w.j != nil {
		return w.writeGuarded(s)
	}
	return w.write(s)
}

func (w *Writer) writeGuarded(s *tachyon.Sample) (err error) {
	defer w.fault(debug.SetPanicOnFault(true), &err)
	return w.write(s)
}

// WriteBatch adds samples as Write does and returns how many it added before the
// error, if there is one. It takes some ten nanoseconds less for each: the guard
// against a journal that is truncated meanwhile is installed once for all of them.
func (w *Writer) WriteBatch(samples []tachyon.Sample) (n int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.j != nil {
		defer w.fault(debug.SetPanicOnFault(true), &err)
	}
	for n < len(samples) {
		if err := w.write(&samples[n]); err != nil {
			return n, err
		}
		if n++; w.err != nil {
			return n, w.err // a sync's
		}
	}
	return n, nil
}

func (w *Writer) write(s *tachyon.Sample) error {
	stack := s.Stack
	if len(stack) > tachyon.MaxDepth {
		stack = stack[:tachyon.MaxDepth]
	}
	t := w.threads.get(s.Thread, s.Interpreter)
	shared := commonSuffix(stack, t.stack)
	for _, id := range stack[:len(stack)-shared] {
		if uint64(id) >= uint64(len(w.table.frames)) {
			return fmt.Errorf("tachyon writer: stack of thread %d names frame %d of %d", s.Thread, id, len(w.table.frames))
		}
	}
	return w.add(t, s, stack, shared)
}

// WriteFrames adds a sample whose stack is given as frames, innermost first;
// s.Stack is ignored. It is fastest when the strings of a frame stay the same
// ones (in memory) from sample to sample. It keeps those of new frames, as
// Intern does. The sample and the slice stay the caller's.
func (w *Writer) WriteFrames(s *tachyon.Sample, stack []tachyon.Frame) error {
	if w.err != nil {
		return w.err
	}
	if w.j != nil {
		return w.writeFramesGuarded(s, stack)
	}
	return w.writeFrames(s, stack)
}

func (w *Writer) writeFramesGuarded(s *tachyon.Sample, stack []tachyon.Frame) (err error) {
	defer w.fault(debug.SetPanicOnFault(true), &err)
	return w.writeFrames(s, stack)
}

func (w *Writer) writeFrames(s *tachyon.Sample, stack []tachyon.Frame) error {
	if len(stack) > tachyon.MaxDepth {
		stack = stack[:tachyon.MaxDepth]
	}
	t := w.threads.get(s.Thread, s.Interpreter)
	shared := w.table.commonSuffix(stack, t.stack)
	fresh := len(stack) - shared
	if fresh == 0 && shared == len(t.stack) {
		return w.add(t, s, t.stack, shared)
	}
	ids := w.ids[:len(stack)]
	for i := range fresh {
		ids[i] = w.table.frame(&stack[i])
	}
	if w.table.err != nil {
		w.err = w.table.err
		return w.err
	}
	copy(ids[fresh:], t.stack[len(t.stack)-shared:])
	// Frames that differ as given may be one frame in the table.
	shared += commonSuffix(ids[:fresh], t.stack[:len(t.stack)-shared])
	return w.add(t, s, ids, shared)
}

// add takes a sample that has its outermost shared frames, no fewer than that,
// in common with the thread's previous one.
func (w *Writer) add(t *thread, s *tachyon.Sample, stack []uint32, shared int) error {
	if w.samples >= w.limit {
		w.err = ErrTooManySamples
		return w.err
	}
	delta := s.Time - t.time
	if shared == len(stack) && shared == len(t.stack) {
		w.repeat(t, delta, uint8(s.Status))
	} else {
		w.flushRepeats(t)
		w.change(t, delta, uint8(s.Status), stack, shared)
	}
	if w.out.err != nil && w.err == nil {
		w.err = w.out.err
	}
	if w.err != nil {
		return w.err
	}
	t.time = s.Time
	w.samples++
	if w.sync != nil && s.Time-w.sync.last >= w.sync.every {
		w.checkpoint(s.Time) // whose error is the next sample's
	}
	return nil
}

// Forget drops what is kept of a thread once it is gone. The thread must not
// come again: a later sample of it would get a wrong time.
func (w *Writer) Forget(id uint64, interpreter uint32) (err error) {
	if w.err != nil {
		return w.err
	}
	if w.j != nil {
		defer w.fault(debug.SetPanicOnFault(true), &err)
	}
	if t := w.threads.find(id, interpreter); t != nil {
		if w.flushRepeats(t); w.out.err != nil {
			w.err = w.out.err
			return w.err
		}
		w.threads.drop(t)
	}
	return w.err
}

// Warning returns what is wrong though the file is well written: why there is no
// journal where one was to be, or ErrCPythonLimit (in layout CPython315).
func (w *Writer) Warning() error {
	w.checkLimits()
	return w.warn
}

func (w *Writer) checkLimits() {
	if w.o.Layout == tachyon.CPython315 && w.out.raw+uint64(len(w.out.buf)) > cpythonLimit {
		w.warn = ErrCPythonLimit
	}
}

// Size returns the size that the file has by now, without what is still in the
// buffer and without its tables.
func (w *Writer) Size() int64 { return w.out.off }
