package writer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// AddMetadata adds a piece of gotach's own metadata to the file: v as JSON, with
// "gotach": kind as its first key. A v that is not an object goes under a key
// named like the kind. See [tachyon.Metadata] for the kinds; readers leave out
// those they do not know.
func (w *Writer) AddMetadata(kind string, v any) (err error) {
	if w.closed {
		return ErrClosed
	}
	if w.j != nil {
		defer w.fault(debug.SetPanicOnFault(true), &err)
	}
	b, err := wire.EncodeMetadata(kind, v)
	if err != nil {
		return fmt.Errorf("tachyon writer: metadata %q: %w", kind, err)
	}
	w.meta = append(w.meta, string(b))
	if w.j != nil {
		return w.j.Metadata(b, false)
	}
	return nil
}

// Close finishes the file and, if Create made it, closes it and deletes the journal.
// After an error of the file it finishes the file with the samples before the error
// and returns that error. If that fails too, the journal stays. Further calls
// return the same.
func (w *Writer) Close() error {
	if w.closed {
		if w.err == ErrClosed {
			return nil
		}
		return w.err
	}
	w.closed = true
	err := w.end(w.err)
	w.err = err
	if err == nil {
		w.err = ErrClosed
	}
	w.threads, w.out, w.meta = threadSet{}, region{}, nil // frees the memory
	return err
}

// Discard ends a Writer of [Create] whose file nobody needs. It removes the file and its
// journal. A file that had contents before Create emptied it is not removed but finished, as
// by Close. Neither is a file that somebody has moved away, nor what is in its place now.
func (w *Writer) Discard() error {
	if w.closed || !w.new || w.checkThere() != nil {
		return w.Close()
	}
	w.closed = true
	w.stopSync()
	// The journal is locked and goes last, so nobody else has begun to write the file.
	err := errors.Join(os.Remove(w.own.Name()), w.own.Close(), w.endJournal(true))
	w.err = ErrClosed
	w.threads, w.out, w.meta = threadSet{}, region{}, nil // frees the memory
	return err
}

// end finishes the file, closes it if it is ours, and then closes the journal.
func (w *Writer) end(err error) error {
	synced := w.sync != nil
	w.stopSync()
	err = w.tryFinish(err)
	if w.own != nil {
		if err == nil {
			err = w.checkThere()
		}
		if err == nil && synced {
			err = w.own.Sync()
		}
		if cerr := w.own.Close(); err == nil {
			err = cerr
		}
	}
	// A journal that cannot be deleted is harmless if the file is finished.
	if jerr := w.endJournal(w.finished); err == nil && !errors.Is(jerr, os.ErrPermission) {
		err = jerr
	}
	return err
}

// checkThere returns an error if the file's name now belongs to another file or to none.
func (w *Writer) checkThere() error {
	mine, err := w.own.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(w.own.Name())
	if err != nil {
		return fmt.Errorf("the file was removed while it was written: %w", err)
	}
	if !os.SameFile(mine, there) {
		return fmt.Errorf("%s: the file was replaced while it was written", w.own.Name())
	}
	return nil
}

// tryFinish calls finish, and once more without the journal if that has become unusable.
func (w *Writer) tryFinish(err error) error {
	if w.j == nil {
		return w.finish(err)
	}
	if ferr := w.finishGuarded(err); w.j != nil {
		return ferr
	}
	return w.finish(w.err)
}

func (w *Writer) finishGuarded(err error) (ferr error) {
	defer w.fault(debug.SetPanicOnFault(true), &ferr)
	return w.finish(err)
}

// finish completes the file. After an error, one that came before or its own, it
// tries to complete the file with the samples before that error. With a journal
// these are all samples, now or when the file is recovered. Without one they are
// those up to the last point at which the file can be completed.
func (w *Writer) finish(err error) error {
	if w.f == nil {
		return err
	}
	switch {
	case w.out.err == nil: // err is not the file's
		cerr := w.complete()
		if cerr == nil {
			if err == ErrTooManySamples {
				return nil
			}
			return err
		}
		if err == nil {
			err = cerr
		}
	case w.j != nil && w.out.resume() == nil && w.complete() == nil:
		return fmt.Errorf("%w (the file was finished with the %d samples before that)", err, w.samples)
	}
	if w.j != nil {
		return fmt.Errorf("%w (gotach recover finishes %s with the %d samples before that)", err, w.own.Name(), w.samples)
	}
	for p := range w.out.points {
		if w.finishAt(p) == nil {
			return fmt.Errorf("%w (the file was finished with %d of %d samples)", err, p.samples, w.samples)
		}
	}
	return err
}

// complete writes the rest of the samples, the tables and the header.
func (w *Writer) complete() error {
	for t := range w.threads.all {
		w.flushRepeats(t)
	}
	w.checkLimits()
	if err := w.out.finish(); err != nil {
		return err
	}
	return w.tail(w.out.off)
}

// finishAt completes the file at an earlier point of the sample region and
// overwrites what follows. On a full disk an earlier point leaves more room for the
// tables.
func (w *Writer) finishAt(p point) error {
	if _, err := w.f.Seek(p.off, io.SeekStart); err != nil {
		return err
	}
	if _, err := w.f.Write(w.out.cut(p)); err != nil {
		return err
	}
	return w.tail(w.out.off)
}

// tail writes what follows the sample region, which ends at off, and then the header.
// The file's position is at off.
func (w *Writer) tail(off int64) error {
	h := tachyon.Header{
		Layout: w.o.Layout, Start: w.o.Start, Interval: w.o.Interval,
		Samples: w.out.samples, Threads: w.out.threads, Compression: w.out.compression(),
		Python: w.o.CPython.Version, Config: w.o.CPython.Config,
	}
	t := wire.NewTail(&counter{w: w.f, n: off, far: &w.out.far}, &h, off)
	for _, s := range w.table.strings {
		t.String(s)
	}
	for _, s := range w.meta {
		t.String(s)
	}
	if len(w.meta) > 0 {
		t.Checksum(w.out.crc)
	}
	for i := range w.table.keys {
		t.Frames(w.table.appendFrame(t.Buffer(), &w.table.keys[i]), 1)
	}
	end, err := t.End(w.stats)
	if err != nil {
		return err
	}
	if err := w.truncate(end); err != nil {
		return err
	}
	if w.o.Sync > 0 && w.own != nil {
		// The rest must be on the disk before the header.
		if err := w.own.Sync(); err != nil {
			return err
		}
	}
	if _, err := w.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	head := wire.EncodeHeader(&h)
	_, err = w.f.Write(head[:])
	w.finished = err == nil
	return err
}

// truncate cuts the file to size if more than that was written.
func (w *Writer) truncate(size int64) error {
	if w.out.far <= size {
		return nil
	}
	t, ok := w.f.(interface{ Truncate(int64) error })
	if !ok {
		return fmt.Errorf("tachyon writer: cannot shorten a %T", w.f)
	}
	return t.Truncate(size)
}

// A counter counts the bytes that are written to a file.
type counter struct {
	w   io.Writer
	n   int64  // file offset
	far *int64 // the highest offset that was ever written
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	*c.far = max(*c.far, c.n)
	return n, err
}
