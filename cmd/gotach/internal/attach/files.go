//go:build linux && (amd64 || arm64)

package attach

import (
	"cmp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// create makes the first file.
func (r *recorder) create(path string) (err error) {
	o := r.o.Rotate
	o.OneFile = !r.rotates()
	o.Writer = writer.Options{Start: r.base, Interval: uint64(r.o.Interval.Microseconds())}
	o.Begin = r.beginFile
	r.stacks, r.functions, r.objects = map[string]*stack{}, objects.Functions{}, r.newObjects()
	if r.ends = nil; r.program.layout.PollFDSeq != 0 && r.threads == nil {
		r.ends = &farEnds{pages: map[uint64]bool{}, known: map[uint64]*descriptor{}, pending: map[uint64]*descriptor{}}
	}
	o.Failed = func(err error) { r.failed.CompareAndSwap(nil, &err) }
	r.w, err = rotate.Create(path, o)
	r.number = 1
	return err
}

func (r *recorder) rotates() bool { return r.o.Rotate.Every > 0 || r.o.Rotate.Bytes > 0 }

// beginFile writes to a new file what it has if it is never finished.
func (r *recorder) beginFile(w *writer.Writer, start uint64) error {
	s := r.session(r.number+1, time.Duration(start-r.base)*time.Microsecond)
	s.Error, s.Counts = tachyon.NotStopped, tachyon.Counts{}
	return w.Provisional(tachyon.KindSession, s)
}

// next begins a new file. All goroutines have just been looked at, so that they have samples until
// now in the one before.
func (r *recorder) next() error {
	if err := r.flushLast(); err != nil {
		return err
	}
	r.w.Next(r.base+micros(r.now), func() func(*writer.Writer) error {
		s := r.session(r.number, r.part)
		r.number++
		r.named.Forget()
		r.rows.Begin(r.now)
		r.part, r.earlier, r.most, r.progressed = r.now, r.Counts, r.alive, r.now
		for _, k := range r.list {
			k.told, k.last = false, max(k.last, r.now)
		}
		return func(w *writer.Writer) error { return w.AddMetadata(tachyon.KindSession, s) }
	})
	return nil
}

// close finishes the last file. It returns the first error of all files.
func (r *recorder) close(err error) error {
	if err == nil {
		err = r.flushLast()
	}
	s := r.session(r.number, r.part)
	err = cmp.Or(err, r.w.Close(func(w *writer.Writer) error { return w.AddMetadata(tachyon.KindSession, s) }))
	r.Files = r.w.Files()
	if failed := r.failed.Load(); failed != nil {
		err = cmp.Or(err, *failed)
	}
	return err
}

// flushLast is flush at the end of a file, with the last times of all goroutines that the file has.
func (r *recorder) flushLast() error {
	for _, k := range r.list {
		r.woke(k)
		if k.live && k.told {
			r.told = append(r.told, tachyon.Goroutine{ID: k.id, Last: r.inFile(k.last)})
		}
	}
	slices.SortFunc(r.told, func(a, b tachyon.Goroutine) int { return int(int64(a.ID - b.ID)) })
	return r.flush()
}

// progressEvery is how often a file that is being written says how far it is.
const progressEvery = 200 * time.Millisecond

// flush writes what a tick has found.
func (r *recorder) flush() error {
	r.name(r.named.Fresh)
	records := tachyon.Records{Objects: r.named.Fresh, Goroutines: r.told}
	if r.now-r.progressed >= progressEvery {
		r.progressed = r.now
		s := r.session(r.number, r.part)
		records.Progress = &tachyon.Progress{Duration: s.Duration, Source: s.Source, SourceReason: s.SourceReason, RateReached: s.RateReached, Counts: s.Counts,
			Objects: s.Objects, FarEndsUnknown: s.FarEndsUnknown, ObjectsUnnamed: s.ObjectsUnnamed}
	}
	var err error // the writer keeps its first one
	if len(records.Objects) > 0 || len(r.told) > 0 || records.Progress != nil {
		err = r.w.WriteRecords(&records)
	}
	n, failed := r.w.WriteBatch(r.batch)
	r.Samples += int64(n)
	if err = cmp.Or(err, failed); err == nil && n < len(r.batch) { // nothing can be written at present
		r.Dropped += int64(len(r.batch) - n)
		r.Unwritten += r.now - r.before
	}
	for _, id := range r.gone {
		err = cmp.Or(err, r.w.Forget(id, tachyon.User))
	}
	clear(r.told)
	r.batch, r.told, r.gone, r.named.Fresh = r.batch[:0], r.told[:0], r.gone[:0], r.named.Fresh[:0]
	return err
}

// micros returns a time in µs.
func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) }
