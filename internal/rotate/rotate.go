// Package rotate writes one stream of samples into one file or many, one after
// the other, and keeps no more of them than it is told.
//
// A file ends after a time, at a size, or when its header cannot count more
// samples. Where a time or a size is given, app.tach stands for app.1.tach,
// app.2.tach and so on; otherwise the first file is app.tach itself, and
// app.2.tach follows only when that is full. Each is a file in its own right, with
// its own start time and the frames that its samples need, and has its own
// journal while it is written.
package rotate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// Options say when a new file begins and what becomes of the old ones.
type Options struct {
	Every   time.Duration // of samples in a file; 0: no bound
	Bytes   int64         // of samples in a file, as compressed; 0: no bound
	Samples uint64        // in a file; 0: as many as its header can count

	// How many finished files are kept, at least 1, and how many bytes of them,
	// though one file is always kept. Without Every and Bytes all are kept.
	Keep      int
	KeepBytes int64

	Writer writer.Options // of each file; Start is the first one's

	// Begin is called with each new file and the time, in µs, at which it starts,
	// before anything is written to it. An error leaves the file unused.
	Begin func(w *writer.Writer, start uint64) error
	// Failed takes the errors that no method returns: a file that could not be
	// begun, finished or deleted. It is called from any goroutine.
	Failed func(error)
}

// split reports whether files end before they are full, so that all have numbers.
func (o *Options) split() bool { return o.Every > 0 || o.Bytes > 0 }

// A Writer is a sampler's sink. Its methods are for one goroutine at a time,
// except Path and Files, which may be called from any.
type Writer struct {
	o   Options
	out string // the path that the names are made of

	table frames.Table     // of the frames of all files
	remap frames.Remap     // from it to the file's
	same  bool             // the file's ids are those of table
	batch []tachyon.Sample // with the file's ids
	ids   []uint32         // in the stacks of batch

	w       *writer.Writer
	start   uint64 // µs, of the file
	last    uint64 // µs, of the latest sample
	retry   uint64 // µs; no new file before that
	samples uint64 // in the file

	finishing sync.WaitGroup // of the file before, at most one; and of failLater
	idle      chan struct{}  // has a token while no file is being finished

	mu       sync.Mutex
	path     string // of the file that is written
	number   int    // in its name
	finished []file // the kept ones, the oldest first
}

// maxSamples is how many samples a file in the document's layout takes here. Its
// header can count some more, for what comes while no new file can be made.
const maxSamples = math.MaxUint32 - 1<<24

// retryAfter is how much later, in µs of samples, beginning a file is tried again.
const retryAfter = 10_000_000

// Create begins the first file. Without Every and Bytes it has the path's own
// name, and a file that is there is emptied. Names with numbers that are taken
// are left alone: the numbers go on after the highest one there is.
//
// A path that is not a regular file, such as a device, gets all samples whatever
// the options say.
func Create(path string, o Options) (*Writer, error) {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		o.Every, o.Bytes, o.Samples = 0, 0, math.MaxUint64
	}
	if o.Samples == 0 {
		o.Samples = maxSamples
		if o.Writer.Layout == tachyon.CPython315 {
			o.Samples = math.MaxUint64
		}
	}
	w := &Writer{o: o, out: path, last: o.Writer.Start, same: true, idle: make(chan struct{}, 1)}
	w.idle <- struct{}{}
	f, err := w.first()
	if err != nil {
		return nil, err
	}
	w.use(f, o.Writer.Start)
	return w, nil
}

func (w *Writer) first() (next, error) {
	if w.o.split() {
		n, err := highest(w.out)
		if err != nil {
			return next{}, err
		}
		w.number = n
		return w.begin(w.o.Writer.Start)
	}
	f, err := writer.Create(w.out, w.o.Writer)
	if err != nil {
		return next{}, err
	}
	if err := w.o.Begin(f, w.o.Writer.Start); err != nil {
		return next{}, errors.Join(err, f.Discard())
	}
	return next{f, w.out, 1}, nil
}

// begin makes a file of the next number that is free and calls Begin for it.
func (w *Writer) begin(start uint64) (next, error) {
	o := w.o.Writer
	o.Start = start
	for n := w.number + 1; ; n++ {
		path := name(w.out, n)
		if _, err := os.Lstat(path); err == nil {
			continue // another's
		} else if !errors.Is(err, fs.ErrNotExist) {
			return next{}, err
		}
		f, err := writer.Create(path, o)
		if errors.Is(err, journal.ErrBusy) {
			continue // another process was faster
		}
		if err != nil {
			// The writer may have made an empty file; with each try there would be one more.
			if fi, e := os.Lstat(path); e == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
				_ = os.Remove(path)
			}
			return next{}, err
		}
		if err := w.o.Begin(f, start); err != nil {
			return next{}, errors.Join(err, f.Discard())
		}
		return next{f, path, n}, nil
	}
}

type next struct {
	*writer.Writer
	path   string
	number int
}

// use writes to f from here on.
func (w *Writer) use(f next, start uint64) {
	w.same = w.w == nil // the first one
	w.w, w.start, w.samples = f.Writer, start, 0
	w.remap.Reset(f.Writer)
	w.mu.Lock()
	w.path, w.number = f.path, f.number
	w.mu.Unlock()
}

// Intern returns the id of a frame, the same in all files.
func (w *Writer) Intern(f tachyon.Frame) uint32 {
	id := w.table.Intern(f)
	w.remap.From = w.table.List()
	// All frames go into the first file, so that its samples need no translation.
	// Its ids differ from the first frame on whose text is not valid UTF-8.
	if w.same && w.w.Intern(f) != id {
		w.same = false
	}
	return id
}

// WriteBatch adds samples to the file and returns how many it added before the
// error, if there is one. Of a stack deeper than 256 the innermost 256 frames are kept.
func (w *Writer) WriteBatch(samples []tachyon.Sample) (n int, err error) {
	var unknown error
	if !w.same {
		samples, unknown = w.translate(samples)
	}
	n, err = w.w.WriteBatch(samples)
	for i := range samples[:n] {
		w.last = max(w.last, samples[i].Time)
	}
	w.samples += uint64(n)
	return n, cmp.Or(err, unknown)
}

// translate returns samples with the file's frame ids, up to the first one that
// names an unknown frame. They are valid until the next call.
func (w *Writer) translate(samples []tachyon.Sample) ([]tachyon.Sample, error) {
	w.batch, w.ids = w.batch[:0], w.ids[:0]
	for _, s := range samples {
		stack, err := w.remap.Stack(s.Stack[:min(len(s.Stack), tachyon.MaxDepth)])
		if err != nil {
			return w.batch, fmt.Errorf("rotate: stack of thread %d: %w", s.Thread, err)
		}
		from := len(w.ids)
		w.ids = append(w.ids, stack...)
		s.Stack = w.ids[from:] // stays as it is when w.ids moves
		w.batch = append(w.batch, s)
	}
	return w.batch, nil
}

// Forget drops what the file's writer keeps of a thread.
func (w *Writer) Forget(id uint64, interpreter uint32) error { return w.w.Forget(id, interpreter) }

// Full reports whether it is time for a new file. It never is while the file
// before is still being finished: a slow disk makes files longer, not goroutines more.
func (w *Writer) Full() bool {
	switch {
	case w.samples == 0 || w.last < w.retry || len(w.idle) == 0:
		return false
	case w.samples >= w.o.Samples:
		return true
	case w.o.Every > 0 && w.last-w.start >= uint64(w.o.Every.Microseconds()):
		return true
	}
	return w.o.Bytes > 0 && w.w.Size() >= w.o.Bytes
}

// Next goes on in a new file, which starts at a time in µs. The old one is
// finished in a goroutine of its own: the caller does not wait for compression
// and disk. Once there is a new file, Next calls ended, and that goroutine calls
// the function that ended returns, which adds the old file's metadata.
//
// If there can be no new file the old one goes on and Failed is told.
func (w *Writer) Next(start uint64, ended func() (finish func(*writer.Writer) error)) {
	f, err := w.begin(start)
	if err != nil {
		w.retry = w.last + retryAfter
		w.finishing.Add(1)
		own.Go(func() { w.failLater(fmt.Errorf("no new file, so the old one goes on: %w", err)) })
		return
	}
	old, path := w.w, w.path
	w.use(f, start)
	<-w.idle
	w.finishing.Add(1)
	finish := ended()
	own.Go(func() { w.finishLater(old, path, finish) })
}

// failLater tells of an error while the samples go on.
func (w *Writer) failLater(err error) {
	defer w.finishing.Done()
	w.o.Failed(err)
}

func (w *Writer) finishLater(old *writer.Writer, path string, finish func(*writer.Writer) error) {
	defer w.finishing.Done()
	defer func() { w.idle <- struct{}{} }()
	if err := w.end(old, path, finish); err != nil {
		w.o.Failed(err)
	}
}

// end finishes a file and then deletes the oldest ones beyond the bounds.
func (w *Writer) end(f *writer.Writer, path string, finish func(*writer.Writer) error) error {
	err := finish(f)
	if e := f.Close(); !errors.Is(e, err) {
		err = errors.Join(err, e)
	} else if e != nil {
		err = e // it says more
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = append(w.finished, remember(path))
	if !w.o.split() {
		return err
	}
	return errors.Join(err, w.prune())
}

// Close finishes the file, for which finish is called as in Next, and waits for
// the one before it.
func (w *Writer) Close(finish func(*writer.Writer) error) error {
	w.finishing.Wait()
	return w.end(w.w, w.path, finish)
}

// Discard ends a Writer that no sample was written to, and removes its file. A file that had
// contents before Create is finished instead; finish is called for it.
func (w *Writer) Discard(finish func(*writer.Writer) error) error {
	w.finishing.Wait()
	return errors.Join(finish(w.w), w.w.Discard())
}

// Path returns the file that is written.
func (w *Writer) Path() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.path
}

// Files returns the finished files that are kept, the oldest first.
func (w *Writer) Files() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]string, len(w.finished))
	for i, f := range w.finished {
		list[i] = f.path
	}
	return list
}

// Warning is the writer's, of the file that is written.
func (w *Writer) Warning() error { return w.w.Warning() }

// Settle waits until no file is being finished.
func (w *Writer) Settle() { w.finishing.Wait() }
