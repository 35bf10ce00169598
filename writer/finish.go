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

// Close finishes the file and, if Create made it, closes it. After an error of
// the file it finishes what was written before, as far as the file lets it, and
// returns that first error. Further calls return the same again.
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
	w.threads, w.out, w.meta = threadSet{}, region{}, nil // of no use any more
	return err
}

// end finishes the file and closes it if it is ours, and then its journal.
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
	// A journal that cannot be deleted does no harm beside a finished file.
	if jerr := w.endJournal(w.finished); err == nil && !errors.Is(jerr, os.ErrPermission) {
		err = jerr
	}
	return err
}

// checkThere says if the file that was written is no longer the one of its name.
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

// tryFinish is finish, and again without the journal if that has become unusable.
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

// finish completes the file. Given an error that came before, or one of its
// own, it tries to make a file of what came before that error. If there is a
// journal, that is everything, now or when the file is recovered; otherwise, as
// much as the file lets it.
func (w *Writer) finish(err error) error {
	if w.f == nil {
		return err
	}
	switch {
	case w.out.err == nil: // whatever is wrong, the file is not
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
		return fmt.Errorf("%w (the %d samples before that are kept: gotach recover finishes %s)", err, w.samples, w.own.Name())
	}
	for p := range w.out.points {
		if w.finishAt(p) == nil {
			return fmt.Errorf("%w (the file was finished with %d of %d samples)", err, p.samples, w.samples)
		}
	}
	return err
}

// complete writes all that is still to be written.
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

// finishAt completes the file at a point that the sample region had come to.
// Earlier points leave more room for the tables on a full disk: what lies
// behind the point is overwritten.
func (w *Writer) finishAt(p point) error {
	if _, err := w.f.Seek(p.off, io.SeekStart); err != nil {
		return err
	}
	if _, err := w.f.Write(w.out.cut(p)); err != nil {
		return err
	}
	return w.tail(w.out.off)
}

// tail writes all that comes after the sample region, which ends at off, where
// the file stands, and then the header.
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
		// A header must not be on the disk before what it promises.
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

// truncate ends the file at size if more than that was written to it.
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

// A counter knows the file offset that the file has come to.
type counter struct {
	w   io.Writer
	n   int64
	far *int64 // the furthest one ever
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	*c.far = max(*c.far, c.n)
	return n, err
}
