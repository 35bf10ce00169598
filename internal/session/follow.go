package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// ErrNoSession is the error of Follow if there is no session that runs.
var ErrNoSession = errors.New("no session is running")

// A Following writes the samples of the running session to a second file.
type Following struct {
	Start   time.Time              // of the session. The times of samples count from it
	Warning error                  // why the file cannot be read while it is written, or nil
	End     func() error           // ends the following and finishes the file; must be called once
	Reach   func() <-chan struct{} // returns a channel that is closed when the file has everything of the time before the call
	Stopped <-chan struct{}        // closed when the session has ended
	Failed  <-chan struct{}        // closed when the file could not be written
	Err     func() error           // returns why
}

// A second is the sink of a second file beside the session's own one.
type second struct {
	*rotate.Copy
	sampler.OnePart
	names objectNames // used only at the end
}

// WriteRecords adds records to the file, objects with the names that are known.
func (k *second) WriteRecords(r *tachyon.Records) error {
	k.names.name(r.Objects)
	return k.Copy.WriteRecords(r)
}

// Follow writes the samples of the running session to a second file too. The file has all about its
// goroutines that the session's own file has. It can be read while it is written, unless a warning
// says why not. The error wraps ErrNoSession if no session is running.
func Follow(path string) (*Following, error) {
	s := active.Load()
	if s == nil || !s.running.Load() {
		return nil, fmt.Errorf("gotach: %w", ErrNoSession)
	}
	at := time.Since(s.about.start).Truncate(time.Microsecond)
	w, err := writer.Create(path, writer.Options{
		Start:    uint64(s.about.start.UnixMicro() + at.Microseconds()),
		Interval: uint64(time.Second.Microseconds()) / uint64(s.config.Rate),
	})
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", err)
	}
	if err := s.about.writeProvisional(w, 0, at); err != nil { // until the end; only readers of an unfinished file see it
		return nil, fmt.Errorf("gotach: %w", errors.Join(err, w.Discard()))
	}
	k := &second{Copy: s.copy(w), names: objectNames{find: findVariables}}
	f, err := s.sampler.Follow(k, at)
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
		return errors.Join(complete(w, &s.about, 0, &p, &k.names, k.names.cut(), ""), w.Close())
	}
	return &Following{Start: s.about.start, Warning: w.Warning(), End: end, Reach: f.Reach, Stopped: f.Stopped(), Failed: f.Failed(), Err: f.Err}, nil
}

// copy returns a Copy of what the session writes to the file f.
func (s *Session) copy(f *writer.Writer) *rotate.Copy {
	if out := s.written(); out != nil {
		return out.Copy(f)
	}
	return s.nothing.Copy(f)
}

// Reach waits until the files of the running session have everything of the time before the call.
// If the session takes no samples at present, it waits for five seconds.
func Reach(ctx context.Context) {
	if s := active.Load(); s != nil && s.running.Load() {
		s.sampler.Reach(5*time.Second, ctx.Done())
	}
}

// Running returns the files of the running session, the oldest first and the unfinished one
// last, and the session's start. The start is zero if no session with a file is running.
func Running() (files []string, start time.Time) {
	s := active.Load()
	if s == nil || !s.running.Load() || s.config.NoFile {
		return nil, time.Time{}
	}
	path, files := s.Path(), s.Files()
	if len(files) == 0 || files[len(files)-1] != path {
		files = append(files, path)
	}
	return files, s.about.start
}
