package profiler

import (
	"fmt"
	"os"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/session"
)

// Stacks leave these functions out: the time in them is that of their caller. Not Keep: naming it
// here would link it into every program.
var _ = own.Hide(Start, Open, (*Session).Stop, (*Session).Err, (*Session).Stats, (*Session).Path, (*Session).Files)

// ErrActive is the error of a session that begins while another one is running.
var ErrActive = session.ErrActive

// A Session is one profile being taken. Its methods may be called from any goroutine.
// On a nil Session they do nothing and return zero values.
type Session struct {
	run *session.Session // nil: none, because of err or because it is off
	err error
	off bool
}

// Start begins a session. It never returns nil and never makes the program fail. If
// sampling cannot begin, Start logs one warning with the reason, and [Session.Err] of the
// returned session returns the error. With PROFILE_SOURCE=off the session does nothing, and
// nothing is logged. The usual use is one line in main:
//
//	defer profiler.Start().Stop()
func Start(opts ...Option) *Session {
	s, err := Open(opts...)
	if err == nil {
		return s
	}
	loggerOf(opts).Warn("gotach: no profile is being taken", "err", err)
	return &Session{err: err}
}

// Open begins a session like [Start], but returns the error instead of logging it. The
// causes are an invalid option, a file that cannot be made, a source that does not work on
// this system, and a session that is already running ([ErrActive]). After an error Open leaves
// no new file behind. A finished profile that was at the path before may have been emptied; a file
// that is no profile is not touched.
func Open(opts ...Option) (*Session, error) {
	c, err := newConfig(opts, os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", err)
	}
	if c.Source == string(Off) {
		return &Session{off: true}, nil
	}
	run, err := session.Open(c)
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", err)
	}
	return &Session{run: run}, nil
}

// Stop ends the session. It takes a final sample of every goroutine, finishes the file and
// writes the exports. Nothing of the session runs after that. With a hundred thousand
// goroutines Stop takes up to half a second. It returns the session's first error. Further
// calls wait for the first call and return the same error.
func (s *Session) Stop() error {
	if s == nil || s.run == nil {
		return s.Err()
	}
	return s.run.Stop()
}

// Err returns the session's first error so far, or nil.
func (s *Session) Err() error {
	switch {
	case s == nil:
		return nil
	case s.run == nil:
		return s.err
	}
	return s.run.Err()
}

// Stats says how a session goes, or how it went. It has what a user can act on; the file says more,
// which "gotach info" shows.
type Stats struct {
	Source   string        // native, portable or off
	Reason   string        // why Auto could not take the native source; "" if it did
	Duration time.Duration // of sampling

	Samples   int64         // samples written
	Dropped   int64         // samples lost, for example because nothing could be written
	Unwritten time.Duration // the time for which nothing could be written: the disk was full or failed

	TicksAsked     int64 // Rate times Duration
	TicksReached   int64 // ticks taken. A tick that neither this nor the next three count came too late: the machine was busy
	TicksForBudget int64 // ticks left out so that the cost stays within the Budget
	TicksIdle      int64 // ticks left out because nothing ran
	TicksRefused   int64 // ticks left out because they would have stopped the program for longer than MaxPause

	Cost      time.Duration // CPU time that sampling took on all cores
	Throttled time.Duration // the time for which the CPU quota of the process's cgroup was used up

	// SignalTaken counts how often the program, or C code in it, set the native source's signal
	// (SIGURG) to be ignored or to its default. Some samples are missing each time.
	SignalTaken int64
}

// Stats returns the statistics so far, or of the whole session after Stop. It returns the zero
// value if sampling did not start.
func (s *Session) Stats() Stats {
	switch {
	case s != nil && s.off:
		return Stats{Source: string(Off)}
	case s == nil || s.run == nil:
		return Stats{}
	}
	st := s.run.Stats()
	return Stats{
		Source: st.Source, Reason: st.SourceReason, Duration: st.Duration,
		Samples: st.Samples, Dropped: st.Dropped, Unwritten: st.Unwritten,
		TicksAsked: st.TicksAsked, TicksReached: st.TicksReached, TicksForBudget: st.TicksForBudget, TicksIdle: st.TicksIdle, TicksRefused: st.TicksRefused,
		Cost: st.Cost, Throttled: st.Throttled, SignalTaken: st.SignalTaken,
	}
}

// Path returns the path of the file that the session writes, or "" if there is none. With
// rotation it is the latest file.
func (s *Session) Path() string {
	if s == nil || s.run == nil {
		return ""
	}
	return s.run.Path()
}

// Files returns the paths of the finished files, the oldest first. With rotation these are
// the files that are kept. Without rotation there is no finished file before Stop.
func (s *Session) Files() []string {
	if s == nil || s.run == nil {
		return nil
	}
	return s.run.Files()
}

// Keep excludes the files of the minute before and the minute after this call from the
// rotation, and writes the reason, at most 200 bytes of it, into the current file. Call it when
// something went wrong that you will want to look at. [KeepFiles] and [KeepBytes] limit kept
// files separately.
//
// Keep waits until the file has what every goroutine does now, for a second at most. It returns
// false and does nothing within a minute of the previous call, and if no file is being written.
func (s *Session) Keep(reason string) bool {
	return s != nil && s.run != nil && s.run.Keep(reason)
}
