package profiler

import (
	"errors"
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

func init() {
	hook.Follow = follow
	hook.Running = running
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
func follow(path string, journal bool) (end func() error, err error) {
	s := active.Load()
	var from *sampler.Sampler
	if s != nil {
		from = s.running.Load()
	}
	if from == nil {
		return nil, errors.New("gotach: no session is running")
	}
	at := time.Since(s.start).Truncate(time.Microsecond)
	w, err := writer.Create(path, writer.Options{
		Start:     uint64(s.start.UnixMicro() + at.Microseconds()),
		Interval:  uint64(time.Second.Microseconds()) / uint64(s.config.rate),
		NoJournal: !journal,
	})
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", err)
	}
	if err := s.provide(w, 0, at); err != nil { // until end; only readers of an unfinished file see it
		return nil, fmt.Errorf("gotach: %w", errors.Join(err, w.Discard()))
	}
	s.mu.Lock()
	out := s.sink
	s.mu.Unlock()
	k := &second{out.Copy(w), objectNames{find: findVariables}}
	ended, err := from.Follow(k, at)
	if errors.Is(err, sampler.ErrFollowed) {
		err = fmt.Errorf("%w, and %w", ErrActive, err)
	}
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", errors.Join(err, w.Discard()))
	}
	return func() error {
		p, err := ended()
		if err != nil {
			return fmt.Errorf("gotach: %w", err)
		}
		return errors.Join(s.add(w, 0, &p, &k.names, k.names.cut()), w.Close())
	}, nil
}

// running is hook.Running.
func running() (files []string, start time.Time) {
	s := active.Load()
	if s == nil || s.running.Load() == nil {
		return nil, time.Time{}
	}
	path, files := s.Path(), s.Files()
	if len(files) == 0 || files[len(files)-1] != path {
		files = append(files, path)
	}
	return files, s.start
}
