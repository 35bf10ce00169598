// Package rotate writes one stream of samples to one file, or to many files one after the
// other, and deletes old files.
//
// A file ends after a time, at a size, or when its header cannot count more samples. With a
// time or a size, the files of app.tach are app.1.tach, app.2.tach and so on. Without them
// the first file is app.tach itself, and app.2.tach follows only when app.tach is full. Each
// file is complete: it has its own start time and the frames of its samples. While it is
// written it has its own journal.
//
// If a file can no longer be written, for example because the disk is full, the samples from then
// on are dropped until a new file can be made. The old file is finished then.
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

// Options say when a new file begins and which old files are kept.
type Options struct {
	Every   time.Duration // longest time of samples in a file; 0: no limit
	Bytes   int64         // most bytes of compressed samples in a file; 0: no limit. If there is a limit, it is at most half of KeepBytes
	Samples uint64        // most samples in a file; 0: as many as its header can count

	// Keep is the most finished files that are kept, at least 1. KeepBytes is their most
	// bytes, but one file is always kept. Without Every and Bytes all files are kept.
	Keep      int
	KeepBytes int64

	// OneFile says that there is no further file if the first one cannot be written. Then the
	// methods return its error.
	OneFile bool

	Writer writer.Options // options of each file; Start is that of the first one

	// Begin is called with each new file and the time in µs at which the file starts,
	// before anything is written to it. After an error the file is not used.
	Begin func(w *writer.Writer, start uint64) error
	// Failed is called with errors that no method returns: a file could not be begun,
	// finished or deleted. It may be called from any goroutine.
	Failed func(error)
	// Deleting is called before unfinished files of programs that were killed are deleted, because
	// there are too many.
	Deleting func(paths []string)
}

// split reports whether Every or Bytes is set, so that the names of all files have numbers.
func (o *Options) split() bool { return o.Every > 0 || o.Bytes > 0 }

// A Writer is a sampler's sink. Only one goroutine at a time may call its methods, except
// Path and Files.
type Writer struct {
	o   Options
	out string // the path from which the names are made

	table frames.Table // frames of all files
	remap frames.Remap // to the file's ids
	same  bool         // these are those of table

	w       *writer.Writer
	start   uint64 // µs, start of the file
	last    uint64 // µs, time of the latest sample
	retry   uint64 // µs; no new file before this time
	samples uint64 // number of samples in the file
	Ending  string // while a file is being finished: why it is kept; for the function that finishes it
	broken  bool   // the file takes no more samples
	faults  int    // number of files that took no more
	wait    uint64 // µs; time from such a fault to the next file

	finishing sync.WaitGroup // goroutines that finish the previous file (at most one) or call Failed
	idle      chan struct{}  // has a token while no file is being finished

	mu       sync.Mutex
	path     string // path of the file that is being written
	number   int    // number in its name
	finished []file // files that are kept, the oldest first
	keepAt   uint64 // µs; the time whose files are kept apart; 0: none
	why      string // they are
}

// maxSamples is the number of samples after which a file in the document's layout is full.
// Its header can count some more, for the samples that come while no new file can be made.
const maxSamples = math.MaxUint32 - 1<<24

// retryAfter is the time in µs of samples after which the Writer again tries to begin a file.
const retryAfter = 10_000_000

// The times in µs of samples after which the Writer tries to begin a new file, if nothing can be
// written. It waits longer if the latest file could not be written for long either: on a disk that
// is nearly full there would be many small files.
const (
	minWait = 1_000_000
	maxWait = 64_000_000
)

// maxFaults is the number of faults after which a session without Every and Bytes ends: it keeps
// all its files.
const maxFaults = 100

// Create begins the first file. Without Every and Bytes this is the file at path; writer.Create
// says what becomes of an existing one. Otherwise numbers start after the highest number of an
// existing file, and existing files stay, except what [journal.Prune] deletes.
//
// A path that is not a regular file, such as a device, gets all samples: Every, Bytes and
// Samples have no effect.
func Create(path string, o Options) (*Writer, error) {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		o.Every, o.Bytes, o.Samples, o.OneFile = 0, 0, math.MaxUint64, true
	}
	if half := o.KeepBytes / 2; o.split() && (o.Bytes == 0 || o.Bytes > half) {
		o.Bytes = half
	}
	if o.Samples == 0 {
		o.Samples = maxSamples
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
		list, err := journal.Numbers(w.out)
		if err != nil {
			return next{}, err
		}
		if len(list) > 0 {
			w.number = list[len(list)-1]
		}
		f, err := w.begin(w.o.Writer.Start)
		if err == nil {
			w.pruneKilled(w.out, w.o.KeepBytes)
		}
		return f, err
	}
	f, err := w.create(w.out, 1, w.o.Writer)
	if err == nil {
		w.pruneKilled(real(w.out), journal.MaxKeptBytes)
	}
	return f, err
}

// create makes the nth file and calls Begin for it.
func (w *Writer) create(path string, n int, o writer.Options) (next, error) {
	f, err := writer.Create(path, o)
	if err != nil {
		return next{}, err
	}
	if err := w.o.Begin(f, o.Start); err != nil {
		return next{}, errors.Join(err, f.Discard())
	}
	return next{f, path, n}, nil
}

// pruneKilled deletes unfinished files of programs that were killed.
func (w *Writer) pruneKilled(path string, limit int64) {
	_ = journal.Prune(path, limit, w.o.Deleting) // what cannot be deleted harms nobody
}

// begin makes a file with the next free number.
func (w *Writer) begin(start uint64) (next, error) {
	o := w.o.Writer
	o.Start = start
	for n := w.number + 1; ; n++ {
		path := journal.Numbered(w.out, n)
		if _, err := os.Lstat(path); err == nil {
			continue // the file exists
		} else if !errors.Is(err, fs.ErrNotExist) {
			return next{}, err
		}
		f, err := w.create(path, n, o)
		if errors.Is(err, journal.ErrBusy) {
			continue // another process was faster
		}
		return f, err
	}
}

type next struct {
	*writer.Writer
	path   string
	number int
}

// use makes f the file that is being written.
func (w *Writer) use(f next, start uint64) {
	w.same = w.w == nil // f is the first file
	w.w, w.start, w.samples, w.broken = f.Writer, start, 0, false
	w.remap.Reset(f.Writer)
	w.mu.Lock()
	w.path, w.number = f.path, f.number
	w.mu.Unlock()
}

// Intern returns the id of a frame. The id is the same for all files.
func (w *Writer) Intern(f tachyon.Frame) uint32 {
	id := w.table.Intern(f)
	w.remap.From = w.table.List()
	// All frames are added to the first file at once, so that its samples need no
	// translation. The ids become different at the first frame with invalid UTF-8.
	if w.same && !w.broken && w.w.Intern(f) != id {
		w.same = false
	}
	return id
}

// Frames returns the table of the ids that Intern has returned. It is for who calls Intern.
func (w *Writer) Frames() *frames.Table { return &w.table }

// WriteBatch adds samples to the file and returns how many it added before an error. If a
// stack is deeper than 256, the innermost 256 frames are kept. While nothing can be written,
// it returns fewer samples than it got, and no error.
func (w *Writer) WriteBatch(samples []tachyon.Sample) (n int, err error) {
	for i := range samples {
		w.last = max(w.last, samples[i].Time)
	}
	if w.broken {
		return 0, nil
	}
	var unknown error
	if !w.same {
		samples, unknown = w.remap.Samples(samples)
	}
	n, err = w.w.WriteBatch(samples)
	w.samples += uint64(n)
	return n, cmp.Or(w.fault(err), unknown)
}

// fault takes an error of the file. It returns nil if the session goes on without the file, else
// the error.
func (w *Writer) fault(err error) error {
	if err == nil || w.w.Err() == nil || w.o.OneFile || !w.o.split() && w.faults == maxFaults {
		return err
	}
	w.broken = true
	w.faults++
	if w.last-w.start > maxWait {
		w.wait = 0
	}
	w.wait = min(max(2*w.wait, minWait), maxWait)
	w.retry = w.last + w.wait
	w.fail(fmt.Errorf("samples are dropped until a new file can be made: %w", err))
	return nil
}

// WriteRecords adds records to the file, to the progress why the file is kept. While nothing can be
// written it keeps only the progress, in the journal.
func (w *Writer) WriteRecords(r *tachyon.Records) error {
	if r.Progress != nil {
		r.Progress.Kept = w.reason(w.start, w.last)
	}
	if w.broken {
		_ = w.w.WriteRecords(&tachyon.Records{Progress: r.Progress})
		return nil
	}
	return w.fault(w.w.WriteRecords(r))
}

// Forget drops the state of a thread in the file's writer.
func (w *Writer) Forget(id uint64, interpreter uint32) error {
	if w.broken {
		return nil
	}
	return w.fault(w.w.Forget(id, interpreter))
}

// Full reports whether a new file should begin. It returns false while the previous file is
// being finished: with a slow disk files become longer, but there are no more goroutines.
func (w *Writer) Full() bool {
	switch {
	case w.broken:
		return w.last >= w.retry && len(w.idle) > 0
	case w.samples == 0 || w.last < w.retry || len(w.idle) == 0:
		return false
	case w.samples >= w.o.Samples:
		return true
	case w.o.Every > 0 && w.last-w.start >= uint64(w.o.Every.Microseconds()):
		return true
	}
	return w.o.Bytes > 0 && w.w.Size() >= w.o.Bytes
}

// Next begins a new file, which starts at the time start in µs. A separate goroutine
// finishes the old file, so the caller does not wait for compression and the disk. After
// the new file is made, Next calls ended. The goroutine calls the function that ended
// returns, which adds the old file's metadata.
//
// If no new file can be made, the Writer continues the old one and calls Failed. If the old one
// takes no more samples, these are dropped until Next succeeds.
func (w *Writer) Next(start uint64, ended func() (finish func(*writer.Writer) error)) {
	f, err := w.begin(start)
	if err != nil && w.broken { // Failed has been called
		w.retry = w.last + minWait
		return
	}
	if err != nil {
		w.retry = w.last + retryAfter
		w.fail(fmt.Errorf("rotation cannot make a new file and continues the old one: %w", err))
		return
	}
	old, path, from := w.w, w.path, w.start
	w.use(f, start)
	<-w.idle
	w.finishing.Add(1)
	finish := ended()
	own.Go(func() {
		defer w.finishing.Done()
		defer func() { w.idle <- struct{}{} }()
		if err := w.end(old, path, from, start, finish); err != nil {
			w.o.Failed(err)
		}
	})
}

// fail calls Failed in a goroutine of its own, so that sampling continues.
func (w *Writer) fail(err error) {
	w.finishing.Add(1)
	own.Go(func() {
		defer w.finishing.Done()
		w.o.Failed(err)
	})
}

// end finishes a file with the samples between two times, in µs, and then deletes the oldest files
// beyond the limits.
func (w *Writer) end(f *writer.Writer, path string, from, to uint64, finish func(*writer.Writer) error) error {
	w.Ending = w.reason(from, to)
	err := finish(f)
	if e := f.Close(); !errors.Is(e, err) {
		err = errors.Join(err, e)
	} else if e != nil {
		err = e // has more details
	}
	done := remember(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	done.end, done.kept = to, w.Ending != ""
	w.finished = append(w.finished, done)
	if !w.o.split() {
		return err
	}
	return errors.Join(err, w.prune())
}

// Close waits until the previous file is finished. Then it calls finish, which adds the
// metadata, and finishes the present file.
func (w *Writer) Close(finish func(*writer.Writer) error) error {
	w.finishing.Wait()
	return w.end(w.w, w.path, w.start, w.last, finish)
}

// Discard ends a Writer without samples and removes its file. If the file had contents before
// Create, Discard finishes it instead. It calls finish first, which adds the metadata.
func (w *Writer) Discard(finish func(*writer.Writer) error) error {
	w.finishing.Wait()
	return errors.Join(finish(w.w), w.w.Discard())
}

// Path returns the path of the file that is being written.
func (w *Writer) Path() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.path
}

// Files returns the paths of the finished files that are kept, the oldest first.
func (w *Writer) Files() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]string, len(w.finished))
	for i, f := range w.finished {
		list[i] = f.path
	}
	return list
}

// Warning returns the warning of the writer of the present file.
func (w *Writer) Warning() error { return w.w.Warning() }

// Kept is that of the writer of the present file.
func (w *Writer) Kept() string { return w.w.Kept() }

// Settle waits until no file is being finished.
func (w *Writer) Settle() { w.finishing.Wait() }
