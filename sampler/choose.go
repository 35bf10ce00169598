package sampler

import (
	"fmt"
	"time"

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
