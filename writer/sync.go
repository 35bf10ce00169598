package writer

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/own"
)

// A syncer brings a file to the disk from time to time, in a goroutine of its
// own: the one that writes samples never waits for a disk. What it syncs are
// points, up to which all samples are in the file, so that after a crash of the
// machine nothing else is needed but the tables.
type syncer struct {
	file  *os.File
	j     *journal.Writer
	every uint64 // µs
	last  uint64 // time of the sample that was the last before a point

	points chan journal.Point
	busy   atomic.Bool
	err    atomic.Pointer[error]
	done   chan struct{}
}

// startSync begins to sync the file being written, if that is wanted.
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

// sync brings the file and the tables to the disk, then that the point is good.
func (s *syncer) sync(p journal.Point) error {
	if err := errors.Join(s.file.Sync(), s.j.Sync()); err != nil {
		return err
	}
	if err := s.j.Durable(p); err != nil {
		return err
	}
	return s.j.Sync()
}

// checkpoint puts all samples into the file, the last one of time now, and has
// that synced. A disk that is still busy with the last point gets the next one later.
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
	if w.out.err != nil {
		w.err = w.out.err
		return
	}
	s.busy.Store(true)
	s.points <- w.out.point()
}
