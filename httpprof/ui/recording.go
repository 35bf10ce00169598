package ui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof/internal/shared"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/stream"
)

const (
	pageSize   = 4_000_000 // bytes
	pageEvents = 1 << 19
)

// A recording is a profile of the program, in a file that grows, and the server that reads it.
type recording struct {
	path      string
	removeDir func() error
	start     time.Time
	limits    limits
	server    *page.Server
	stopped   <-chan struct{} // closed when the session has ended
	gone      chan struct{}   // closed by remove

	mu    sync.Mutex
	asked time.Time
	stop  func() error // nil: it has ended
	err   error
}

// record begins a recording: from the session that runs, or with one of its own.
func record(ctx context.Context, opts []profiler.Option, l limits) (*recording, error) {
	dir, remove, err := shared.Folder()
	if err != nil {
		return nil, err
	}
	r := &recording{removeDir: remove, path: filepath.Join(dir, "live.tach"), start: time.Now(), limits: l, gone: make(chan struct{})}
	r.ask()
	f, err := shared.Follow(ctx, r.path, opts)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	r.stop, r.stopped = f.End, f.Stopped
	r.server = page.NewServer(context.Background(), r.options())
	return r, nil
}

func (r *recording) options() page.ServerOptions {
	return page.ServerOptions{
		Options: page.Options{MaxSize: pageSize, Events: pageEvents}, Rest: true,
		Title: name(r.start), Open: r.open, Version: r.version, Note: r.note,
	}
}

// open opens the file as it is now.
func (r *recording) open(ctx context.Context, q page.Request) (*page.Opened, error) {
	sel, err := q.Select(nil)
	if err != nil {
		return nil, err
	}
	live := !r.ended() // before the file is opened: what is read after its end is final
	in, err := formats.Open(r.path, formats.Options{Context: ctx, Select: sel})
	if err != nil {
		return nil, err
	}
	open := func(o stream.Options) (*stream.Source, error) { return in.Source(o) }
	return &page.Opened{Inputs: []page.Input{{Name: name(r.start), Open: open, Live: live}}, Growing: live, Close: in.Close}, nil
}

// version changes each second while the recording grows.
func (r *recording) version() string {
	if r.ended() {
		return "ended"
	}
	return fmt.Sprint(time.Now().Unix())
}

// note says how far the recording is.
func (r *recording) note() (text string, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return "The recording has failed: " + r.err.Error(), true
	case r.stop == nil:
		return "The recording has ended.", true
	}
	return fmt.Sprintf("The program is being recorded, for at most %v.", r.limits.length), false
}

// ask notes that a page asks for the recording.
func (r *recording) ask() {
	r.mu.Lock()
	r.asked = time.Now()
	r.mu.Unlock()
}

// unasked reports whether no page asked for so long.
func (r *recording) unasked(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.asked) > d
}

func (r *recording) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop == nil
}

// over reports whether a recording that has not ended is at one of its limits.
func (r *recording) over() bool {
	if r.ended() {
		return false
	}
	select {
	case <-r.stopped:
		return true
	default:
	}
	fi, err := os.Stat(r.path)
	return err != nil || fi.Size() > r.limits.size || time.Since(r.start) > r.limits.length || r.unasked(r.limits.unasked)
}

// end ends the recording and finishes its file.
func (r *recording) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		return r.err
	}
	r.err = r.stop()
	r.stop = nil
	return r.err
}

// remove ends the recording and all reading, and removes the file. It may be called once.
func (r *recording) remove() error {
	close(r.gone)
	err := r.end()
	r.server.Close()
	return errors.Join(err, r.removeDir())
}
