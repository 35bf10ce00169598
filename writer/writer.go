// Package writer writes samples to a file. Its API is not promised (v0): see docs/compatibility.md.
// The format is Tachyon, which package tachyon describes.
//
//	w, err := writer.Create("app.tach", writer.Options{Start: start, Interval: 1000})
//	id := w.Intern(tachyon.Frame{File: "main.go", Func: "main.main", Line: 12})
//	err = w.Write(&tachyon.Sample{Thread: 1, Time: start + 1000, Stack: []uint32{id}})
//	err = w.Close()
//
// Times are in microseconds. A Writer collects samples in a buffer of 512 KB, compresses
// them with zstd and writes them to the file. Close adds the tables of strings and frames.
// It writes the header last, so a file with a header is complete.
//
// # Killed programs
//
// If [Create] made the file, a program that is killed loses no sample that Write has
// accepted. The journal, app.tach.journal for app.tach, has everything that is not in the
// file yet. It is mapped into memory, and the buffer is part of it. So it needs no system
// calls and costs 1 to 3 percent of the throughput. Package reader reads unfinished files
// with their journals, and the command gotach recover finishes them. Close deletes the
// journal. There is no journal on Windows, OpenBSD, Solaris and AIX.
//
// # Compression
//
// The level is klauspost's for zstd's 5, with a window of 2 MiB and no goroutine of its own. On
// 200,000 samples of a CPU-bound service (5 threads, mean depth 38.5) it takes 5.43 bytes and
// 0.24 µs a sample, the next better level 5.20 bytes and 0.40 µs. zstd's own level 5 takes
// 5.14 bytes.
//
// # Memory
//
// A Writer takes about 3 MB, most of it for zstd, plus its tables. Records ([Writer.WriteRecords])
// take another 2 MB, however many there are; without a journal, also their compressed bytes. About
// 500 bytes are for each thread: its last stack and its pending repeats. With few threads, each may
// hold back up to 16 KB of repeats; all threads together may hold back 1 MB. [Writer.Forget] drops
// a thread that has ended.
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
	"github.com/gotach/profiler/tachyon"
)

// Options say what kind of file to write. The zero value is the document's
// layout, compressed, with times that start at 0.
type Options struct {
	Layout       tachyon.Layout // 0 is Document
	Uncompressed bool           // no zstd
	Start        uint64         // µs, on the clock of the samples' times, usually Unix time
	Interval     uint64         // µs between two ticks, as asked for
	CPython      *CPythonInfo   // only for CPython315; nil means wall clock without statistics
	NoJournal    bool           // no journal: the file is lost if the program is killed

	// Sync limits the loss after a crash of the machine, for a file with a journal. The
	// loss is at most the samples of this duration and of the time that the disk takes to
	// sync. 0 leaves syncing to the kernel. Syncing needs a goroutine and shortens runs of
	// repeats, which makes the file larger.
	Sync time.Duration
}

// ErrClosed is the error of a closed Writer's methods.
var ErrClosed = errors.New("tachyon writer: already closed")

// ErrTooManySamples is the error for samples beyond the 2^32-1 that the header of the
// document's layout can count. Close then finishes the file with 2^32-1 samples and returns
// nil.
var ErrTooManySamples = errors.New("tachyon writer: the document's layout holds no more than 4294967295 samples")

// ErrCPythonLimit is the warning that a file has more than 1 GiB of samples before
// compression, which CPython 3.15 refuses to read. See [Writer.Warning].
var ErrCPythonLimit = errors.New("more than 1 GiB of samples before compression: CPython 3.15 will refuse to read the file")

// A Writer writes one file. It must not be used from two goroutines at once.
//
// After the first error of the file, the methods refuse every sample with that error. Close
// finishes the file with the samples before the error, if the disk allows that.
type Writer struct {
	o   Options
	f   io.WriteSeeker
	own *os.File // f, if the writer opened it
	new bool     // own was not there before, or was empty

	out     region
	table   table
	threads threadSet
	meta    []string // metadata objects, in order
	records records  // the record section
	stats   []byte   // the statistics block; nil: none

	j        *journal.Writer // may be nil
	finished bool            // the file has its header
	sync     *syncer         // nil: none

	samples uint64 // number of samples, with pending ones
	limit   uint64 // most samples that the header can count

	ids    [tachyon.MaxDepth]uint32 // the stack of WriteFrames
	err    error                    // the first error
	closed bool
	warn   error
	kept   string // see Kept
}

// Create makes a file with mode 0600, or empties an existing profile. Close closes it. If the
// existing profile was not finished, because its program was killed, Create gives it and its
// journal the name app.1.tach, or the next number that is free: see [Writer.Kept]. It deletes none
// of these files. If the existing file is not a profile and not empty, the error wraps
// [ErrNotProfile]. Create follows a symbolic link if the link belongs to the user or to root. If
// another process is writing the file, the error wraps [ErrBusy].
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

// New returns a Writer that writes to f from its beginning. It has no journal and does not
// close f.
func New(f io.WriteSeeker, o Options) (*Writer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return newWriter(f, "", o)
}

// create opens a file. The file is emptied later, when no other process can be writing it.
func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
}

// empty truncates a regular file to 0 bytes. It does not change other files. It reports whether
// there was nothing in it.
func empty(f *os.File) (was bool, err error) {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return false, err
	}
	if _, err := check(f, true); err != nil { // the file may be another one than that before the journal was made
		return false, err
	}
	return fi.Size() == 0, f.Truncate(0)
}

func (o *Options) check() error {
	switch o.Layout {
	case 0:
		o.Layout = tachyon.Document
	case tachyon.Document, tachyon.CPython315:
	default:
		return fmt.Errorf("tachyon writer: unknown layout %d, must be %d or %d", o.Layout, tachyon.CPython315, tachyon.Document)
	}
	if o.CPython == nil {
		o.CPython = &CPythonInfo{Config: configWall}
	}
	c := *o.CPython // a copy, since the caller may change the original
	o.CPython = &c
	return nil
}

// newWriter returns a Writer for f. If f is nil, it makes a file at path.
func newWriter(f io.WriteSeeker, path string, o Options) (*Writer, error) {
	w := &Writer{o: o, f: f, limit: math.MaxUint32}
	if o.Layout == tachyon.CPython315 {
		w.limit = math.MaxUint64
		w.stats = o.CPython.Stats
	}
	w.table.init(o.Layout)
	w.threads.init(o.Start)
	w.records.plain = o.Uncompressed
	if err := w.out.init(o); err != nil {
		return nil, err
	}
	if err := w.begin(path); err != nil {
		return nil, err
	}
	return w, nil
}

// begin writes zero bytes in place of the header and starts the sample region. If w has no
// file yet, begin makes one at path, and removes it after an error. A file that had contents
// before stays, empty.
func (w *Writer) begin(path string) (err error) {
	if w.f == nil {
		defer func() {
			if err != nil {
				if w.new && w.checkThere() == nil {
					_ = os.Remove(w.own.Name())
				}
				_ = w.endJournal(true)
				w.own.Close() // own may be nil; then Close only returns an error
				w.own, w.f = nil, nil
			}
		}()
		if err := w.keep(path); err != nil {
			return err
		}
		// The journal comes first, so the file is never without one. The journal's lock
		// shows if another process is writing the file.
		if err := w.startJournal(path); err != nil {
			return err
		}
		if w.own, err = create(path); err != nil {
			return err
		}
		w.f = w.own
		if w.new, err = empty(w.own); err != nil {
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

// Intern returns the id of a frame for Sample.Stack. Equal frames have the same id. The
// Writer keeps f's strings: clone them first if they are parts of larger strings.
func (w *Writer) Intern(f tachyon.Frame) uint32 {
	if w.j != nil {
		var err error // fault sets w.err too
		defer w.fault(debug.SetPanicOnFault(true), &err)
	}
	id := w.table.frame(&f)
	if w.err == nil {
		w.err = w.table.err
	}
	return id
}

// Write adds a sample whose stack consists of ids from Intern. If the stack is deeper than
// 256, Write keeps the innermost 256 frames. It does not keep a reference to s. It returns
// an error for a stack with an unknown id; later samples are not affected.
func (w *Writer) Write(s *tachyon.Sample) error {
	_, err := w.WriteBatch([]tachyon.Sample{*s})
	return err
}

// WriteBatch adds samples like Write and returns how many it added before an error. It is
// about ten nanoseconds faster for each sample, because it installs the guard against a
// truncated journal only once.
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
			return n, w.err // error of a sync
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
			return fmt.Errorf("tachyon writer: the stack of thread %d refers to frame %d, but there are %d frames", s.Thread, id, len(w.table.frames))
		}
	}
	return w.add(t, s, stack, shared)
}

// WriteFrames is Write for a stack of frames, innermost first, in place of s.Stack. It calls Intern
// for each, so Write is faster with ids that the caller keeps.
func (w *Writer) WriteFrames(s *tachyon.Sample, stack []tachyon.Frame) error {
	c := *s
	c.Stack = w.ids[:min(len(stack), tachyon.MaxDepth)]
	for i := range c.Stack {
		c.Stack[i] = w.Intern(stack[i])
	}
	return w.Write(&c)
}

// add adds a sample. shared is the exact number of outermost frames that are the same in
// stack and in the thread's previous stack.
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
		w.checkpoint(s.Time) // the next sample returns its error
	}
	return nil
}

// Forget drops the state of a thread that has ended. A later sample of the same
// thread would get a wrong time.
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

// Err returns the first error of the file, after which the methods refuse every sample, or nil.
func (w *Writer) Err() error { return w.err }

// Warning returns a problem that does not prevent the writing of the file: why there is no
// journal, or ErrCPythonLimit. It returns nil if there is no problem.
func (w *Writer) Warning() error {
	w.checkLimits()
	return w.warn
}

func (w *Writer) checkLimits() {
	if w.o.Layout == tachyon.CPython315 && w.out.raw+uint64(len(w.out.buf)) > cpythonLimit {
		w.warn = ErrCPythonLimit
	}
}

// Size returns the present size in bytes of the samples in the file, and of the full blocks of
// records that will be in it. The samples in the buffer and the tables are not counted yet.
func (w *Writer) Size() int64 { return w.out.off + w.records.length }

// configWall is the config word of a wall-clock profile whose features are unknown.
const configWall = 1

// CPythonInfo has the fields of the CPython315 layout that the document's layout lacks.
type CPythonInfo struct {
	Version [3]uint8 // version of the profiled Python; zero for a Go program
	Config  uint32   // mode and features, as in tachyon.Header; not checked
	Stats   []byte   // the statistics block; nil: none
}
