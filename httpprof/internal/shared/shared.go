// Package shared has what the handlers in httpprof and httpprof/ui share: the session of the
// program, and folders for their files.
package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/session"
)

// A Following is a file that gets the samples of the program's session from some time on.
type Following struct {
	*file
	of *running // nil: of the program's own session
}

// A running is a session that handlers have started. All of them share it, and the last one ends
// it.
type running struct {
	*profiler.Session
	users int
}

var (
	// turn has an element while a session begins or ends.
	turn = make(chan struct{}, 1)
	// present is the handlers' session, or nil. It belongs to who has the turn.
	present *running
)

// ErrOff is the error of Follow if the operator, or the handler's options, want no profiles.
var ErrOff = errors.New("profiling is off in this program: PROFILE_SOURCE=off")

// noFile lets a session write no file: only followings keep its samples.
func noFile(c *session.Config) error {
	c.Sink = new(nothing)
	return nil
}

// Hosts returns an option that only handlers look at: by which names requests may name the server.
func Hosts(names []string) profiler.Option {
	return func(c *session.Config) error {
		c.Hosts = append(c.Hosts, names...)
		return nil
	}
}

// HostsOf returns the names that Hosts has set.
func HostsOf(opts []profiler.Option) []string {
	var c session.Config
	for _, o := range opts {
		if o != nil {
			_ = o(&c) // Follow returns the error
		}
	}
	return c.Hosts
}

var followSession = followPresent // tests replace it

// patience is how long Follow waits for a session of the program that begins or ends.
var patience = 10 * time.Second

// Follow begins a file at path. It follows the session that runs, or begins one with the options,
// except those for the output. It waits for a session that begins or ends.
func Follow(ctx context.Context, path string, opts []profiler.Option) (*Following, error) {
	for begin := time.Now(); ; {
		f, err := follow(ctx, path, opts)
		if !errors.Is(err, ErrNoSession) {
			return f, err
		}
		if time.Since(begin) > patience {
			return nil, fmt.Errorf("the program's session has ended or does not begin: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func follow(ctx context.Context, path string, opts []profiler.Option) (*Following, error) {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if present != nil && present.Err() != nil { // it has failed, and its users will notice
		_ = present.Stop()
		present = nil
	}
	if present == nil {
		s, err := profiler.Open(append(slices.Clone(opts), noFile)...)
		switch {
		case err == nil && s.Stats().Source == string(profiler.Off):
			return nil, ErrOff
		case err == nil:
			present = &running{Session: s}
		case !errors.Is(err, profiler.ErrActive):
			return nil, err
		}
	}
	f, err := followSession(path)
	if errors.Is(err, ErrNoSession) && present != nil && present.users > 0 {
		// Somebody has stopped it: after a deadlock the session does it itself.
		present = nil
	}
	if err != nil {
		if present != nil {
			err = errors.Join(err, present.left())
		}
		return nil, err
	}
	if present != nil {
		present.users++
	}
	return &Following{f, present}, nil
}

// left ends a session that nobody uses.
func (s *running) left() error {
	if s.users > 0 {
		return nil
	}
	if present == s {
		present = nil
	}
	return s.Stop()
}

// End finishes the file. It must be called once. The session of the last file ends first: at its
// end there is a sample of each goroutine, also of one that has waited for long.
func (f *Following) End() error {
	if f.of == nil {
		return f.file.End()
	}
	turn <- struct{}{}
	defer func() { <-turn }()
	f.of.users--
	return errors.Join(f.of.left(), f.file.End())
}
