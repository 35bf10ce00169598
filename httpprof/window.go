package httpprof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof/internal/shared"
	"github.com/gotach/profiler/internal/formats"
)

// Requests share recordings: files with the samples of the session, which each request reads when
// its time is over. A recording that is old or large is not joined any more, because who reads a
// file starts at its beginning. But there are few recordings, because each costs the program the
// writing of its samples.
const (
	mostRecordings = 4
	oldRecording   = 5 * time.Second
	largeRecording = 8 << 20

	mostWindows = 100 // requests at a time
	mostLasts   = 5   // requests with last, one of which is served
)

var (
	errBusy    = errors.New("there are too many requests for profiles; try again later")
	errStopped = errors.New("the session has ended")
)

// A lock is a mutex; who waits for it can give up.
type lock chan struct{}

func (l lock) do(ctx context.Context, f func() error) error {
	select {
	case l <- struct{}{}:
		defer func() { <-l }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil { // both were possible
		return context.Cause(ctx)
	}
	return f()
}

// A count counts requests.
type count struct{ n atomic.Int64 }

func (c *count) enter(most int64) bool {
	if c.n.Add(1) <= most {
		return true
	}
	c.n.Add(-1)
	return false
}

func (c *count) leave() { c.n.Add(-1) }

var (
	converting     = make(lock, 1) // profiles, one at a time
	windows, lasts count

	joining    = make(lock, 1)
	recordings []*recording // that may be joined, the oldest first; they belong to joining
)

// A recording is a file that several requests may read.
type recording struct {
	*shared.Following
	path        string
	remove      func() error
	begun       time.Time
	users, ever int  // requests that use it, and all that have used it
	sole        bool // it had one request
	ended       bool
}

// A window is the time of one request.
type window struct {
	*recording
	from, to time.Time
}

// join begins a window.
func join(ctx context.Context, opts []profiler.Option) (v *window, err error) {
	if !windows.enter(mostWindows) {
		return nil, errBusy
	}
	defer func() {
		if err != nil {
			windows.leave()
		}
	}()
	err = joining.do(ctx, func() error {
		var r *recording
		if n := len(recordings); n > 0 && recordings[n-1].open(n == mostRecordings) {
			r = recordings[n-1]
		} else if n >= mostRecordings {
			return errBusy
		} else if r, err = record(ctx, opts); err != nil {
			return err
		} else {
			recordings = append(recordings, r)
		}
		r.users++
		r.ever++
		v = &window{recording: r, from: r.now()}
		return nil
	})
	return v, err
}

func record(ctx context.Context, opts []profiler.Option) (*recording, error) {
	dir, remove, err := shared.Folder()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "recording.tach")
	f, err := shared.Follow(ctx, path, opts)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	return &recording{Following: f, path: path, remove: remove, begun: time.Now()}, nil
}

// open reports whether another request can join. Without a journal nobody can read the file while
// it is written.
func (r *recording) open(full bool) bool {
	select {
	case <-r.Stopped:
		return false
	case <-r.Failed:
		return false
	default:
	}
	fi, err := os.Stat(r.path)
	return r.Warning == nil && err == nil && (full || fi.Size() < largeRecording && time.Since(r.begun) < oldRecording)
}

// now returns the time on the session's clock, which does not follow steps of the machine's one.
func (r *recording) now() time.Time { return r.Start.Add(time.Since(r.Start)) }

// wait waits until the window is over.
func (v *window) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(time.Until(v.from.Add(d)))
	defer timer.Stop()
	select {
	case <-ctx.Done(): // the client closed the connection, or the server ends
		return context.Cause(ctx)
	case <-v.Stopped:
		return fmt.Errorf("%w after %v of %v", errStopped, v.now().Sub(v.from).Round(time.Millisecond), d)
	case <-v.Failed:
		return fmt.Errorf("the profile could not be written after %v of %v: %w", v.now().Sub(v.from).Round(time.Millisecond), d, v.Err())
	case <-timer.C:
	}
	v.to = v.from.Add(d)
	return nil
}

// settle waits until the file has all samples of the window.
func (v *window) settle(ctx context.Context) error {
	err := joining.do(ctx, func() error {
		if v.users > 1 {
			return nil
		}
		v.sole = v.ever == 1
		return v.end()
	})
	if err != nil || v.ended {
		return err
	}
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	select {
	case <-v.Reach():
	case <-v.Stopped: // its last samples come before that
	case <-v.Failed:
	case <-late.C:
		return errors.New("the session takes no samples at present")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := v.Err(); err != nil {
		return fmt.Errorf("the end of the profile could not be written: %w", err)
	}
	return nil
}

// end ends a recording that nobody joins any more. It is called with joining.
func (r *recording) end() error {
	if r.ended {
		return nil
	}
	r.ended = true
	recordings = slices.DeleteFunc(recordings, func(other *recording) bool { return other == r })
	return r.End()
}

// excerpt returns the path of a file with the window only.
func (v *window) excerpt(ctx context.Context, dir string) (string, error) {
	if v.sole {
		return v.path, nil
	}
	path := filepath.Join(dir, "window.tach")
	return path, formats.Window(ctx, path, v.path, v.from, v.to)
}

// leave ends the use of the recording.
func (v *window) leave() error {
	defer windows.leave()
	return joining.do(context.Background(), func() error {
		if v.users--; v.users > 0 {
			return nil
		}
		return errors.Join(v.end(), v.remove())
	})
}
