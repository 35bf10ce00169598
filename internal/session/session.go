// Package session is what a session of package profiler does: it opens the file, starts the
// sampler, and says in the file's metadata what was sampled. Package profiler puts options and
// environment on top. The handlers of httpprof follow a session without going through its public
// face.
//
// Files, each of which uses only those after it:
//
//   - session.go: from Open to Stop, its errors and warnings;
//   - files.go: the sampler's sink, which writes one file after the other and completes each; the
//     metadata about program, machine and sampling;
//   - objectnames.go: gives objects in variables, such as global locks, the names of these
//     variables;
//   - executable.go: the executable's ELF sections, and the variable at an address;
//   - config.go: the settings of a session, made of options and environment by package profiler;
//     names of files.
package session

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// ErrActive is profiler.ErrActive.
var ErrActive = errors.New("another session is running in this program")

// WrapSink, if not nil, returns the sink that the sampler gets instead of the session's. Tests set
// it to see what the sampler writes.
var WrapSink func(sampler.Sink) sampler.Sink

// active is the session that is running now, or nil.
var active atomic.Pointer[Session]

// A Session is one profile being taken. Its methods may be called from any goroutine.
type Session struct {
	config Config
	path   string
	about  about

	sampler *sampler.Sampler
	sink    *sink       // nil: nothing
	running atomic.Bool // sampler has started: then any goroutine may use it

	stop sync.Once
	mu   sync.Mutex
	err  error // the session's first error
}

// Open begins a session.
func Open(c Config) (*Session, error) {
	defer own.Turn()()
	if err := sampler.Allowed(); err != nil { // checked before a file is made or emptied
		return nil, err
	}
	s := &Session{config: c}
	s.about = about{config: &s.config, start: time.Now(), err: s.Err}
	s.path = whole(cmp.Or(c.OneFile, expand(c.Output, s.about.start)))
	if !active.CompareAndSwap(nil, s) {
		if other := active.Load(); other != nil && other.Path() != "" {
			return nil, fmt.Errorf("%w; it writes %s", ErrActive, other.Path())
		}
		return nil, ErrActive
	}
	if err := s.begin(); err != nil {
		active.CompareAndSwap(s, nil)
		return nil, err
	}
	return s, nil
}

// begin opens the file and starts sampling into it.
func (s *Session) begin() error {
	c := &s.config
	s.about.exe, s.about.cpus = readExecutable(), sampler.CPUs(os.Getpid())
	var to sampler.Sink = c.Sink
	var err error
	if c.Sink == nil {
		if to, err = s.createFile(s.FileOptions()); err != nil {
			return err
		}
	}
	own.Again()
	if WrapSink != nil {
		to = WrapSink(to)
	}
	s.sampler, err = sampler.Start(sampler.Config{
		Rate:         c.Rate,
		Budget:       c.Budget,
		Source:       c.Source,
		System:       c.System,
		NoWaitFrames: c.NoWaitFrames,
		MaxPause:     c.MaxPause,
		Start:        s.about.start,
		OnError:      s.broken,
		OnWarning:    func(err error) { c.Logger().Warn("gotach: part of the profile is missing", "why", err) },
	}, to)
	if err != nil {
		if s.sink != nil {
			err = errors.Join(err, s.sink.discard(err))
		}
		return err
	}
	s.running.Store(true)
	if st := s.sampler.Stats(); st.SourceReason != "" && c.Source == sampler.Auto {
		c.Logger().Warn("gotach: sampling with the portable source, which stops the world for each tick", "why", st.SourceReason)
	}
	return nil
}

// FileOptions returns those of the session's file.
func (s *Session) FileOptions() writer.Options {
	c := &s.config
	return writer.Options{
		Start:        uint64(s.about.start.UnixMicro()),
		Interval:     uint64(time.Second.Microseconds()) / uint64(c.Rate),
		Uncompressed: c.Compression == Uncompressed,
		Sync:         c.Sync,
	}
}

// createFile begins the profile's file.
func (s *Session) createFile(o writer.Options) (sampler.Sink, error) {
	s.config.Exports = s.targets()
	out, err := create(s.path, &s.about, o, s.fail)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.sink = out
	s.mu.Unlock()
	if err := out.Warning(); err != nil {
		s.config.Logger().Warn("gotach: the profile cannot be recovered if the program is killed", "why", err)
	}
	if path := out.Kept(); path != "" {
		s.config.Logger().Info("gotach: an earlier profile was not finished, because its program was killed; it is kept", "file", path)
	}
	return out, nil
}

// targets returns the exports with their whole paths, without those that would replace a profile of
// the session, a journal or another export. It warns of these.
func (s *Session) targets() (list []hook.Target) {
	for _, t := range s.config.Exports {
		t.Path = whole(expand(t.Path, s.about.start))
		if rotate.Belongs(s.path, t.Path) || slices.ContainsFunc(list, func(o hook.Target) bool { return rotate.Same(o.Path, t.Path) }) {
			s.config.Logger().Warn("gotach: an export is left out, because it would replace another file of the session", "format", t.Format, "file", t.Path)
			continue
		}
		list = append(list, t)
	}
	return list
}

// broken is called when sampling ends before Stop. After a deadlock no goroutine of the
// program can call Stop, so broken calls it; then the program ends.
func (s *Session) broken(err error) {
	s.fail(err)
	if errors.Is(err, sampler.ErrDeadlock) {
		_ = s.Stop()
	}
}

// Stop is profiler.Session.Stop.
func (s *Session) Stop() error {
	s.stop.Do(func() {
		defer own.Turn()()
		s.fail(s.finish())
		active.CompareAndSwap(s, nil)
		s.export()
	})
	return s.Err()
}

// finish ends sampling, writes the metadata and closes the file.
func (s *Session) finish() error {
	errSampler := s.sampler.Stop()
	if n := s.sampler.Stats().SignalTaken; n > 0 {
		s.config.Logger().Warn("gotach: the program ignored the sampler's signal for a while, and some samples are missing", "times", n)
	}
	if s.sink == nil {
		return errSampler
	}
	if s.config.Leaks {
		s.about.leaks = &tachyon.ProvenLeaks{Unavailable: "the program does not import github.com/gotach/profiler/leaks"}
		if hook.ProvenLeaks != nil {
			s.about.leaks = hook.ProvenLeaks()
		}
	}
	part := s.sampler.Part()
	own.Again()
	return errors.Join(errSampler, s.sink.end(&part))
}

// export writes the profile in other formats. Each export covers all files that are kept.
func (s *Session) export() {
	if len(s.config.Exports) == 0 {
		return
	}
	if hook.Exporting == nil { // Stop was called in an init function before package export's
		s.fail(errors.New("export: package export is not initialized yet"))
		return
	}
	hook.Exporting.Export(s.Files(), s.config.Exports, s.fail)
}

// Err is profiler.Session.Err.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail stores and logs the session's first error. The sink calls it too, when a file can
// no longer be written.
func (s *Session) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = fmt.Errorf("gotach: %w", err)
	}
	s.mu.Unlock()
	if first {
		s.config.Logger().Warn("gotach: the profile is not complete", "err", err, "file", s.Path())
	}
}

// Keep is profiler.Session.Keep.
func (s *Session) Keep(reason string) bool {
	out := s.written()
	if out == nil || !s.running.Load() || !out.Keep(uint64(s.about.start.Add(time.Since(s.about.start)).UnixMicro()), reason) {
		return false
	}
	s.sampler.Reach(time.Second, nil)
	return true
}

// Running returns the session that takes samples now, or nil.
func Running() *Session {
	if s := active.Load(); s != nil && s.running.Load() {
		return s
	}
	return nil
}

// Start returns the time that the samples count from.
func (s *Session) Start() time.Time { return s.about.start }

// Sampler returns what takes the samples of a session that Running has returned.
func (s *Session) Sampler() *sampler.Sampler { return s.sampler }

// Frames returns the table of the frame ids in the session's samples. It is for a sink that follows
// the session.
func (s *Session) Frames() *frames.Table {
	if out := s.written(); out != nil {
		return out.Frames()
	}
	return s.config.Sink.Frames()
}

// Provisional writes the metadata that a copy has if it is never finished. It begins at the time at
// since the session's start.
func (s *Session) Provisional(w *writer.Writer, at time.Duration) error {
	return s.about.writeProvisional(w, 0, at)
}

// Complete writes the metadata of a copy. static are its objects in variables of the program.
func (s *Session) Complete(w *writer.Writer, p *sampler.Part, static []tachyon.Object) error {
	return complete(w, &s.about, 0, p, &objectNames{find: findVariables}, static, "")
}

// Stats returns the sampler's statistics.
func (s *Session) Stats() sampler.Stats { return s.sampler.Stats() }

// written returns the session's sink, nil if it has none yet.
func (s *Session) written() *sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink
}

// Path is profiler.Session.Path.
func (s *Session) Path() string {
	if out := s.written(); out != nil {
		return out.Path()
	}
	return s.path
}

// Files is profiler.Session.Files.
func (s *Session) Files() []string {
	if out := s.written(); out != nil {
		return out.Files()
	}
	return nil
}
