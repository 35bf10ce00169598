// Package recovery finishes the profiles of killed programs from their journals. Package
// internal/journal describes the journal.
package recovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// ErrBusy is the error for a profile whose writer is still running.
var ErrBusy = journal.ErrBusy

// A Result is the result of Finish.
type Result struct {
	Finished bool   // the profile was already finished and was not changed
	Samples  uint64 // number of samples in the profile
	Restored uint64 // number of samples that were only in the journal
}

// Finish finishes the profile at path in place and then deletes its journal. If it is
// interrupted, it can be called again. The error wraps ErrBusy if the writer is still
// running. Finish returns an error if there is no journal.
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
	if err != nil {
		return Result{}, err
	}
	defer r.Close()
	res := Result{Samples: r.Header().Samples, Finished: !r.Unfinished()}
	if res.Finished {
		if lock != nil { // the writer was killed after it wrote the header
			err = os.Remove(lock.Name())
		}
		return res, err
	}
	if _, err := r.VerifyChecksum(); err != nil {
		return res, fmt.Errorf("the journal does not match the file, which was changed or replaced: %w", err)
	}
	st, err := journal.Load(path)
	if err != nil {
		return res, err
	}
	res.Restored = res.Samples - st.Point.Samples
	if err := finish(path, st, r.Header()); err != nil {
		return res, err
	}
	return res, os.Remove(lock.Name())
}

// finish writes the tail and then the header. The header makes the file complete.
func finish(path string, st *journal.State, counted tachyon.Header) error {
	zw, err := wire.NewEncoder(0)
	if err != nil {
		return err
	}
	compress := func(records []byte) []byte { return zw.EncodeAll(records, nil) }
	h, tail, err := st.Finish(counted.Samples, counted.Threads, compress)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(tail, st.Point.Offset); err != nil {
		return err
	}
	if err := f.Truncate(st.Point.Offset + int64(len(tail))); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	head := wire.EncodeHeader(&h)
	if _, err := f.WriteAt(head[:], 0); err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
