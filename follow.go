package profiler

import (
	"errors"
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

func init() {
	hook.Follow = follow
	hook.Running = running
}

// An unkept is the sink of a session without a file.
type unkept struct {
	*rotate.Nothing
	sampler.OnePart
}

// A second is the sink of a second file beside the session's own one.
type second struct {
	*rotate.Copy
	names objectNames // used only at the end
}

// Objects adds descriptions of objects to the file.
func (k *second) Objects(list []tachyon.Object) error {
	k.names.name(list)
	return k.Copy.Objects(list)
}

// Full returns false: there is one file.
func (*second) Full() bool { return false }

// Next is never called.
func (*second) Next(time.Duration, func() sampler.Part) {}

// follow is hook.Follow.
func follow(path string) (*hook.Following, error) {
	s := active.Load()
	var from *sampler.Sampler
	if s != nil {
		from = s.running.Load()
	}
	if from == nil {
		return nil, fmt.Errorf("gotach: %w", hook.ErrNoSession)
	}
	at := time.Since(s.start).Truncate(time.Microsecond)
	w, err := writer.Create(path, writer.Options{
		Start:    uint64(s.start.UnixMicro() + at.Microseconds()),
		Interval: uint64(time.Second.Microseconds()) / uint64(s.config.rate),
	})
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", err)
	}
	if err := s.provide(w, 0, at); err != nil { // until the end; only readers of an unfinished file see it
		return nil, fmt.Errorf("gotach: %w", errors.Join(err, w.Discard()))
	}
	k := &second{s.copy(w), objectNames{find: findVariables}}
	f, err := from.Follow(k, at)
	if err != nil {
		return nil, fmt.Errorf("gotach: %w: %w", hook.ErrNoSession, errors.Join(err, w.Discard()))
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
		return errors.Join(s.add(w, 0, &p, &k.names, k.names.cut()), w.Close())
	}
	return &hook.Following{Start: s.start, Warning: w.Warning(), End: end, Reach: f.Reach, Stopped: f.Stopped(), Failed: f.Failed(), Err: f.Err}, nil
}

// copy returns a Copy of what the session writes to the file f.
func (s *Session) copy(f *writer.Writer) *rotate.Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sink == nil {
		return s.nothing.Copy(f)
	}
	return s.sink.Copy(f)
}

// running is hook.Running.
func running() (files []string, start time.Time) {
	s := active.Load()
	if s == nil || s.running.Load() == nil || s.config.noFile {
		return nil, time.Time{}
	}
	path, files := s.Path(), s.Files()
	if len(files) == 0 || files[len(files)-1] != path {
		files = append(files, path)
	}
	return files, s.start
}
