package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// ErrNoSession is the error of Follow if there is no session that runs.
var ErrNoSession = errors.New("no session is running")

// A file gets the samples of the running session beside the session's own file.
type file struct {
	Start   time.Time              // of the session. The times of samples count from it
	Warning error                  // why the file cannot be read while it is written, or nil
	End     func() error           // ends the following and finishes the file; must be called once
	Reach   func() <-chan struct{} // returns a channel that is closed when the file has everything of the time before the call
	Stopped <-chan struct{}        // closed when the session has ended
	Failed  <-chan struct{}        // closed when the file could not be written
	Err     func() error           // returns why
}

// A nothing takes the samples of a session that writes no file of its own.
type nothing struct {
	sampler.OnePart
	table frames.Table
}

func (n *nothing) Frames() *frames.Table                            { return &n.table }
func (n *nothing) Intern(f tachyon.Frame) uint32                    { return n.table.Intern(f) }
func (n *nothing) WriteBatch(samples []tachyon.Sample) (int, error) { return len(samples), nil }
func (n *nothing) WriteRecords(*tachyon.Records) error              { return nil }
func (n *nothing) Forget(uint64, uint32) error                      { return nil }

// A second is the sampler's sink that writes a file. The frame ids in the samples are those of a
// table of the session.
type second struct {
	*writer.Writer
	sampler.OnePart
	table  *frames.Table
	remap  frames.Remap
	static []tachyon.Object // objects in variables of the program, which get their names at the end
}

// WriteBatch adds samples to the file.
func (k *second) WriteBatch(samples []tachyon.Sample) (n int, err error) {
	k.remap.From = k.table.List()
	samples, unknown := k.remap.Samples(samples)
	n, err = k.Writer.WriteBatch(samples)
	return n, cmp.Or(err, unknown)
}

// WriteRecords adds records to the file.
func (k *second) WriteRecords(r *tachyon.Records) error {
	for _, o := range r.Objects {
		if o.Static != 0 {
			k.static = append(k.static, o)
		}
	}
	return k.Writer.WriteRecords(r)
}

// followPresent writes the samples of the running session to a file too. The file has all about its
// goroutines that the session's own file has. It can be read while it is written, unless a warning
// says why not. The error wraps ErrNoSession if no session is running.
func followPresent(path string) (*file, error) {
	s := session.Running()
	if s == nil {
		return nil, fmt.Errorf("gotach: %w", ErrNoSession)
	}
	at := time.Since(s.Start()).Truncate(time.Microsecond)
	o := s.FileOptions()
	o.Start += uint64(at.Microseconds())
	w, err := writer.Create(path, writer.Options{Start: o.Start, Interval: o.Interval})
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", err)
	}
	if err := s.Provisional(w, at); err != nil { // until the end; only readers of an unfinished file see it
		return nil, fmt.Errorf("gotach: %w", errors.Join(err, w.Discard()))
	}
	k := &second{Writer: w, table: s.Frames(), remap: frames.Remap{To: w}}
	f, err := s.Sampler().Follow(k, at)
	if err != nil {
		return nil, fmt.Errorf("gotach: %w: %w", ErrNoSession, errors.Join(err, w.Discard()))
	}
	end := func() error {
		p, err := f.End()
		if errors.Is(err, sampler.ErrLate) {
			own.Go(func() { f.Wait(); _ = w.Close() }) // the sampler may still write; its caller knows of the error
			return fmt.Errorf("gotach: %w", err)
		}
		if err != nil {
			return fmt.Errorf("gotach: %w", errors.Join(err, w.Close()))
		}
		return errors.Join(s.Complete(w, &p, k.static), w.Close())
	}
	return &file{Start: s.Start(), Warning: w.Warning(), End: end, Reach: f.Reach, Stopped: f.Stopped(), Failed: f.Failed(), Err: f.Err}, nil
}

// Past returns the files of the running session, the oldest first and the unfinished one last, and
// the session's start. The start is zero if no session with a file is running. The files have
// everything of the time before the call, unless the session takes no samples for five seconds or
// the context is done.
func Past(ctx context.Context) (files []string, start time.Time) {
	s := session.Running()
	if s == nil || s.Path() == "" {
		return nil, time.Time{}
	}
	s.Sampler().Reach(5*time.Second, ctx.Done())
	path, files := s.Path(), s.Files()
	if len(files) == 0 || files[len(files)-1] != path {
		files = append(files, path)
	}
	return files, s.Start()
}
