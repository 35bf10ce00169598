// Package recovery finishes the profiles of killed programs from their journals. Package
// internal/journal describes the journal.
package recovery

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/unfinished"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// ErrBusy is the error for a profile whose writer is still running.
var ErrBusy = journal.ErrBusy

// A Result is the result of Finish.
type Result struct {
	Finished bool   // the profile was already finished and was not changed
	Samples  uint64 // number of samples in the profile
	Restored uint64 // number of samples that were only in the journal
	Cut      string // what is left out because the journal is damaged; "": nothing
}

// Finish finishes the profile at path in place and then deletes its journal. Before that it reads
// the whole profile. What is damaged in the journal is left out, and Result.Cut says it. If Finish
// is interrupted, it can be called again. The error wraps ErrBusy if the writer is still running.
// Finish returns an error if there is no journal. After an error the journal is still there.
func Finish(path string) (Result, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	lock, err := journal.Lock(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Result{}, err
	}
	if lock != nil {
		defer lock.Close()
	}
	r, err := reader.Open(path)
	if err != nil && (lock == nil || !errors.Is(err, reader.ErrUnfinished) && !damaged(err)) {
		return Result{}, err
	}
	if err == nil {
		defer r.Close()
		if res := (Result{Samples: r.Header().Samples, Finished: true}); !r.Unfinished() && lock == nil {
			return res, nil
		} else if !r.Unfinished() && whole(r) == nil { // the writer was killed after it wrote the header
			return res, os.Remove(lock.Name())
		}
	}
	// Also if Finish was interrupted.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	var head [tachyon.HeaderSize]byte
	if _, err := f.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return Result{}, err
	}
	st, err := unfinished.Load(path)
	if err != nil {
		return Result{}, err
	}
	if err := matches(f, st.Point); err != nil {
		return Result{}, err
	}
	t := newTrial(f, st)
	if err := t.finish(); err != nil {
		_, e := f.WriteAt(head[:], 0)
		return Result{}, errors.Join(err, e)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return Result{}, err
	}
	return Result{Samples: t.samples, Restored: t.samples - st.Point.Samples, Cut: t.said()}, os.Remove(lock.Name())
}

func damaged(err error) bool {
	var format *reader.FormatError
	return errors.As(err, &format)
}

// whole reads all of a finished profile.
func whole(r *reader.Reader) error {
	if _, err := r.VerifyChecksum(); err != nil {
		return err
	}
	for _, err := range r.Samples() {
		if err != nil {
			return err
		}
	}
	_, err := r.Metadata()
	return err
}

// matches returns an error if the file does not have the samples that the journal continues.
func matches(f *os.File, p journal.Point) error {
	if p.Offset < tachyon.HeaderSize {
		return fmt.Errorf("damaged journal: the profile's samples end at %d", p.Offset)
	}
	crc, b := uint32(0), make([]byte, 1<<20)
	for r := io.NewSectionReader(f, tachyon.HeaderSize, p.Offset-tachyon.HeaderSize); ; {
		n, err := r.Read(b)
		crc = wire.CRC(crc, b[:n])
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	// A program that was killed in Create has left an empty file.
	if fi, err := f.Stat(); err != nil || max(fi.Size(), tachyon.HeaderSize) < p.Offset || crc != p.CRC {
		return errors.Join(err, errors.New("the journal does not match the file: one of them was changed, replaced or damaged"))
	}
	return nil
}
