package writer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// AddMetadata adds an object of gotach's own metadata to the file. The object is v as JSON,
// with "gotach": kind as its first key. If v is not a JSON object, it becomes the value of
// a key that is named like the kind. [tachyon.Metadata] lists the kinds; readers ignore
// unknown ones.
func (w *Writer) AddMetadata(kind string, v any) error { return w.metadata(kind, v, false) }

// Provisional adds a metadata object in case the program is killed and the file is not
// finished. A later object of the same kind, from Provisional or AddMetadata, replaces it.
// It has no effect on a file that is finished or has no journal.
func (w *Writer) Provisional(kind string, v any) error { return w.metadata(kind, v, true) }

func (w *Writer) metadata(kind string, v any, provisional bool) (err error) {
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
	if !provisional {
		w.meta = append(w.meta, string(b))
	}
	if w.j == nil {
		return nil
	}
	return w.j.Metadata(b, provisional)
}

// Close finishes the file. If Create made the file, Close also closes it and deletes the
// journal. After an error of the file, Close finishes the file with the samples before the
// error and returns that error. If this fails too, the journal stays. Further calls return
// the same error.
func (w *Writer) Close() error {
	if w.closed {
		if w.err == ErrClosed {
			return nil
		}
		return w.err
	}
	w.closed = true
	err := w.end(w.err)
	w.err = cmp.Or(err, ErrClosed)
	w.threads, w.out, w.meta, w.records = threadSet{}, region{}, nil, records{} // frees the memory
	return err
}

// Discard ends a Writer of [Create] and removes its file and its journal. It does not remove
// a file that had contents before Create emptied it, or a file that somebody has moved or
// replaced: in these cases it works like Close.
func (w *Writer) Discard() error {
	if w.closed || !w.new || w.checkThere() != nil {
		return w.Close()
	}
	w.closed = true
	w.stopSync()
	// The journal is removed last. Its lock keeps other processes from writing the file.
	err := errors.Join(os.Remove(w.own.Name()), w.own.Close(), w.endJournal(true))
	w.err = ErrClosed
	w.threads, w.out, w.meta, w.records = threadSet{}, region{}, nil, records{} // frees the memory
	return err
}

// end finishes the file, closes it if the writer opened it, and then closes the journal.
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

// checkThere returns an error if the file was removed or replaced by another one.
func (w *Writer) checkThere() error {
	mine, err := w.own.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(w.own.Name())
	if err != nil {
		return fmt.Errorf("the file was removed during the session, its samples are lost: %w", err)
	}
	if !os.SameFile(mine, there) {
		return fmt.Errorf("%s: the file was replaced during the session, its samples are lost", w.own.Name())
	}
	return nil
}

// tryFinish calls finish. If the journal becomes unusable, it calls finish again without
// the journal.
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

// finish completes the file. After an earlier error or an error of its own, it tries to
// complete the file with the samples before that error. With a journal these are all
// samples, either now or when the file is recovered. Without a journal they are the samples
// up to the last point at which the file can be completed.
func (w *Writer) finish(err error) error {
	if w.f == nil {
		return err
	}
	switch {
	case w.out.err == nil: // err is not an error of the file
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
		return fmt.Errorf("%w (the file was finished with the %d samples before the error)", err, w.samples)
	}
	if w.j != nil {
		return fmt.Errorf("%w (to finish the file with the %d samples before the error, run: gotach recover %s)", err, w.samples, w.own.Name())
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
	return w.tail()
}

// finishAt completes the file at an earlier point of the sample region and overwrites the
// rest. On a full disk an earlier point leaves more room for the tables.
func (w *Writer) finishAt(p point) error {
	if _, err := w.f.Seek(p.off, io.SeekStart); err != nil {
		return err
	}
	if _, err := w.f.Write(w.out.cut(p)); err != nil {
		return err
	}
	return w.tail()
}

// tail writes the parts of the file after the sample region and then the header. The file's
// position is the end of the region.
func (w *Writer) tail() error {
	crc := w.out.crc
	h := tachyon.Header{
		Layout: w.o.Layout, Start: w.o.Start, Interval: w.o.Interval,
		Samples: w.out.samples, Threads: w.out.threads, Compression: w.out.compression(),
		Python: w.o.CPython.Version, Config: w.o.CPython.Config,
	}
	t := wire.NewTail((*sink)(&w.out), &h, w.out.off)
	for _, s := range w.table.strings {
		t.String(s)
	}
	for _, s := range w.meta {
		t.String(s)
	}
	last, err := w.records.rest()
	if err != nil {
		return err
	}
	section := tachyon.Section{Length: w.records.length + int64(len(last)), CRC32C: wire.CRC(w.records.crc, last)}
	if len(w.meta) > 0 || section.Length > 0 {
		t.Checksum(crc, &section, w.table.frameBytes())
	}
	for i := range w.table.frames {
		t.Frames(w.table.appendFrame(t.Buffer(), &w.table.frames[i]), 1)
	}
	w.records.blocks(t.Records)
	t.Records(last)
	end, err := t.End(w.stats)
	if err != nil {
		return err
	}
	if err := w.truncate(end); err != nil {
		return err
	}
	if w.o.Sync > 0 && w.own != nil {
		// All other parts must be on the disk before the header.
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

// truncate shortens the file to size if it is longer.
func (w *Writer) truncate(size int64) error {
	if w.out.far <= size {
		return nil
	}
	t, ok := w.f.(interface{ Truncate(int64) error })
	if !ok {
		return fmt.Errorf("tachyon writer: cannot truncate the file: %T has no method Truncate", w.f)
	}
	return t.Truncate(size)
}
