package sampler

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/gotach/profiler/sampler/internal/deadlock"
	"github.com/gotach/profiler/sampler/internal/portable"
	"github.com/gotach/profiler/sampler/internal/source"
)

// A candidate makes a source, or returns the reason why this build has none.
type candidate func() (source.Source, error)

func portableSource() (source.Source, error) { return portable.New(), nil }

// choose starts the source that the configuration asks for.
func (s *Sampler) choose(sink Sink, native, portable candidate) error {
	if s.cfg.Source != Portable {
		err := s.try(sink, native)
		if err == nil {
			return nil
		}
		if s.cfg.Source == Native {
			return fmt.Errorf("sampler: the native source cannot run: %w", err)
		}
		s.reason = err.Error()
	}
	if err := s.try(sink, portable); err != nil {
		return fmt.Errorf("sampler: the portable source cannot run: %w", err)
	}
	return nil
}

// try starts one source. Each attempt has its own recorder, so that nothing is left of a source
// that failed.
func (s *Sampler) try(sink Sink, candidate candidate) error {
	src, err := candidate()
	if err != nil {
		return err
	}
	out := newRecorder(sink, s.start, s.cfg.Rate)
	out.system, out.look = s.cfg.System, src.Look
	out.stats = func() Stats { return s.stats(src, out, time.Since(s.start)) }
	err = src.Start(source.Config{
		Rate:       s.cfg.Rate,
		Budget:     s.cfg.Budget,
		Cores:      s.limits.cores,
		System:     s.cfg.System,
		WaitFrames: !s.cfg.NoWaitFrames,
		Start:      s.start,
		Fallback:   s.cfg.Source == Auto,
		MaxPause:   s.cfg.MaxPause,
		Warn:       s.cfg.OnWarning,
	}, out)
	if err != nil {
		return err
	}
	s.src, s.out = src, out
	return nil
}

// ErrBubble is the error of Start within a testing/synctest bubble. Goroutines that are started
// there belong to the bubble, and its clock does not advance while they run.
var ErrBubble = errors.New("sampler: cannot sample from within a testing/synctest bubble; start the session outside of it")

// ErrDeadlock is the error of a session that ended because all goroutines of the program wait for
// one another. The runtime reports such a deadlock and ends the program, but not while a session
// has threads and timers. So the session ends first. OnError may save the samples before that.
var ErrDeadlock = deadlock.Err

// Allowed returns an error if a session cannot start now in the calling goroutine. It also tests
// whether the system allows the threads that a session needs. Start calls it too.
func Allowed() error {
	if inBubble() {
		return ErrBubble
	}
	return room()
}

// inBubble reports whether the calling goroutine is in a synctest bubble. It reads the header of
// the stack trace, the only place that shows it: "goroutine 8 [running, synctest bubble 7]:".
func inBubble() bool {
	var buf [256]byte
	header, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte("]"))
	return bytes.Contains(header, []byte("synctest bubble"))
}
