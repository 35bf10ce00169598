package writer

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/own"
)

// A syncer syncs a file from time to time in its own goroutine, so that the goroutine that
// writes samples never waits for the disk. It syncs at points at which all samples are in
// the file. So after a crash of the machine only the tables in the journal are needed in
// addition to the file.
type syncer struct {
	file  *os.File
	j     *journal.Writer
	every uint64 // µs
	last  uint64 // µs, time of the last sample before the latest point

	points chan journal.Point
	busy   atomic.Bool
	err    atomic.Pointer[error]
	done   chan struct{}
}

// startSync starts syncing the file if Options.Sync says so.
func (w *Writer) startSync() {
	if w.o.Sync <= 0 || w.j == nil {
		return
	}
	s := &syncer{
		file: w.own, j: w.j,
		every: uint64(max(w.o.Sync, time.Millisecond).Microseconds()), last: w.o.Start,
		points: make(chan journal.Point, 1), done: make(chan struct{}),
	}
	w.sync = s
	own.Go(s.run)
}

// stopSync waits for the goroutine to end.
func (w *Writer) stopSync() {
	if w.sync != nil {
		close(w.sync.points)
		<-w.sync.done
		w.sync = nil
	}
}

func (s *syncer) run() {
	defer close(s.done)
	for p := range s.points {
		if err := s.sync(p); err != nil {
			s.err.CompareAndSwap(nil, &err)
		}
		s.busy.Store(false)
	}
}

// sync syncs the file and the tables, then marks the point as durable.
func (s *syncer) sync(p journal.Point) error {
	if err := errors.Join(s.file.Sync(), s.j.Sync()); err != nil {
		return err
	}
	if err := s.j.Durable(p); err != nil {
		return err
	}
	return s.j.Sync()
}

// checkpoint writes all samples to the file and makes the syncer sync it. now is the time
// of the last sample in µs. checkpoint does nothing while the syncer is still busy with
// the previous point.
func (w *Writer) checkpoint(now uint64) {
	s := w.sync
	if err := s.err.Load(); err != nil && w.err == nil {
		w.err = *err
	}
	if w.err != nil || s.busy.Load() {
		return
	}
	s.last = now
	for t := range w.threads.all {
		w.flushRepeats(t)
	}
	if w.out.err == nil && len(w.out.buf) > 0 {
		w.out.flush()
	}
	if err := w.records.seal(); err != nil { // only blocks have checksums
		w.err = err
		return
	}
	if w.out.err != nil {
		w.err = w.out.err
		return
	}
	s.busy.Store(true)
	s.points <- w.out.point()
}
