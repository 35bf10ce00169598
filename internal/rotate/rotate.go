// Package rotate writes one stream of samples into many files, one after the
// other, and keeps no more of them than it is told.
//
// Of app.tach it makes app.1.tach, app.2.tach and so on. Each is a file in its
// own right, with its own start time and the frames that its samples need, and
// has its own journal while it is written.
package rotate

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// Options say when a new file begins and what becomes of the old ones.
type Options struct {
	Every time.Duration // of samples in a file; 0: no bound
	Bytes int64         // of samples in a file, as compressed; 0: no bound

	Keep      int   // finished files, at least 1
	KeepBytes int64 // of all finished files, though one is always kept

	Writer writer.Options // of each file; Start is the first one's

	// Begin is called with each new file and the time, in µs, at which it starts,
	// before anything is written to it. An error leaves the file unused.
	Begin func(w *writer.Writer, start uint64) error
	// Failed takes what went wrong outside of the calls that return errors: a file
	// that could not be begun, finished or deleted. It is called from any goroutine.
	Failed func(error)
}

// A Writer is a sampler's sink. Its methods are for one goroutine at a time, but
// for Path and Files.
type Writer struct {
	o   Options
	out string // the path that the names are made of

	frames []tachyon.Frame // all that samples name
	ids    map[tachyon.Frame]uint32
	local  []uint32 // by frame, its id in the file + 1; 0: not in it
	stack  [tachyon.MaxDepth]uint32

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

// maxSamples is when a file ends in any case, well before its header cannot count
// them any more.
const maxSamples = math.MaxUint32 - 1<<24

// retryAfter is how much later, in µs of samples, beginning a file is tried again.
const retryAfter = 10_000_000

// Create begins the first file. Names that are taken are left alone: the numbers
// go on after the highest one there is.
func Create(path string, o Options) (*Writer, error) {
	w := &Writer{o: o, out: path, ids: map[tachyon.Frame]uint32{}, last: o.Writer.Start, idle: make(chan struct{}, 1)}
	w.idle <- struct{}{}
	n, err := highest(path)
	if err != nil {
		return nil, err
	}
	w.number = n
	f, err := w.begin(o.Writer.Start)
	if err != nil {
		return nil, err
	}
	w.use(f, o.Writer.Start)
	return w, nil
}

// begin makes a file of the next number that is free, and says what it is.
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
			err = errors.Join(err, f.Close())
			return next{}, errors.Join(err, os.Remove(path))
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
	w.w, w.start, w.samples = f.Writer, start, 0
	clear(w.local)
	w.mu.Lock()
	w.path, w.number = f.path, f.number
	w.mu.Unlock()
}

// Intern returns the number of a frame, the same in all files.
func (w *Writer) Intern(f tachyon.Frame) uint32 {
	id, ok := w.ids[f]
	if !ok {
		id = uint32(len(w.frames))
		w.ids[f] = id
		w.frames = append(w.frames, f)
		w.local = append(w.local, 0)
	}
	return id
}

// Write adds a sample to the file.
func (w *Writer) Write(s *tachyon.Sample) error {
	n := min(len(s.Stack), len(w.stack))
	for i, id := range s.Stack[:n] {
		if uint64(id) >= uint64(len(w.local)) {
			return fmt.Errorf("rotate: stack of thread %d names frame %d of %d", s.Thread, id, len(w.local))
		}
		local := w.local[id]
		if local == 0 {
			local = w.w.Intern(w.frames[id]) + 1
			w.local[id] = local
		}
		w.stack[i] = local - 1
	}
	out := *s
	out.Stack = w.stack[:n]
	w.last = max(w.last, s.Time)
	w.samples++
	return w.w.Write(&out)
}

// Forget drops what the file's writer keeps of a thread.
func (w *Writer) Forget(id uint64, interpreter uint32) error { return w.w.Forget(id, interpreter) }

// Batch is the file's; see [writer.Writer.Batch].
func (w *Writer) Batch(f func()) error { return w.w.Batch(f) }

// Full reports whether it is time for a new file. It never is while the file
// before is still being finished, so that a slow disk makes files longer rather
// than goroutines more.
func (w *Writer) Full() bool {
	switch {
	case w.samples == 0 || w.last < w.retry || len(w.idle) == 0:
		return false
	case w.samples >= maxSamples:
		return true
	case w.o.Every > 0 && w.last-w.start >= uint64(w.o.Every.Microseconds()):
		return true
	}
	return w.o.Bytes > 0 && w.w.Size() >= w.o.Bytes
}

// Next goes on in a new file, which starts at a time in µs. The old one is
// finished in a goroutine of its own: the caller does not wait for compression
// and disk. What ended returns, called once there is a new file, is called there
// first, to add what the old one is to have besides samples.
//
// If there can be no new file the old one goes on and Failed is told.
func (w *Writer) Next(start uint64, ended func() (finish func(*writer.Writer) error)) {
	f, err := w.begin(start)
	if err != nil {
		w.retry = w.last + retryAfter
		w.finishing.Add(1)
		go w.failLater(fmt.Errorf("no new file, so the old one goes on: %w", err))
		return
	}
	old, path := w.w, w.path
	w.use(f, start)
	<-w.idle
	w.finishing.Add(1)
	go w.finishLater(old, path, ended()) // not WaitGroup.Go, which would hide who created it
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

// end finishes a file and then deletes what is too much.
func (w *Writer) end(f *writer.Writer, path string, finish func(*writer.Writer) error) error {
	err := errors.Join(finish(f), f.Close())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = append(w.finished, remember(path))
	return errors.Join(err, w.prune())
}

// Close finishes the file, for which finish is called as in Next, and waits for
// the one before it.
func (w *Writer) Close(finish func(*writer.Writer) error) error {
	w.finishing.Wait()
	return w.end(w.w, w.path, finish)
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
