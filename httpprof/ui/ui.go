// Package ui serves the page of gotach view for the running program: time, flame graph, goroutines,
// locks with their holders, requests and leaks, while they happen.
//
//	mux.Handle("/debug/gotach/", ui.Handler())
//
// Who opens the page starts a recording, which it shows as it grows. It ends after a minute, at
// 8 MB, or when no page has asked for it for 15 seconds. If a session is running in the program,
// the recording is taken from it: the session goes on and its own file stays whole. Otherwise the
// handlers of this package and of package httpprof share one that the first of them begins and the
// last one ends. The cost is that of a session, and that of reading the recording. There is one
// reading at a time, however many pages are open and whatever they show. After each the handler
// rests four times as long, so all readings together take at most about a fifth of the time. What
// no page asks for any more is not read. A reading of the largest recordings takes some 100 MB of
// the heap. The recording has the goroutines that read, too.
//
// The recording is a file in the temporary directory. It is removed ten minutes after the last page
// asked for it, at the next recording, or by [UI.Close]. If the program ends before, the handler of
// a later process of the same user removes it.
//
// The page has functions, labels and goroutines of the program, and no source. It asks for no
// password: like the handlers of net/http/pprof, it belongs where only those who run the program
// can reach it. It answers only requests that name the server by an address, as localhost, or by
// one of [Hosts]. So a website cannot read it by means of a name that it lets point to the server.
// Other websites cannot start a recording or show the page in a frame. Nothing can be changed
// through it.
//
// The package links the page and all analyses. Programs that import only package httpprof do not.
package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof/internal/shared"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/site"
)

// A UI is a handler that serves the page.
type UI struct {
	opts  []profiler.Option
	hosts []string
	mu    sync.Mutex
	rec   *recording // nil: none
	shut  bool
	l     limits
}

// limits bound recordings.
type limits struct {
	length  time.Duration // of a recording
	size    int64         // of its file
	unasked time.Duration // after which a recording ends
	kept    time.Duration // after which it is removed
	look    time.Duration // how often this is checked
}

var usual = limits{length: time.Minute, size: 8 << 20, unasked: 15 * time.Second, kept: 10 * time.Minute, look: 250 * time.Millisecond}

// Handler returns a handler for a path that ends in a slash. The options and the environment apply
// to the sessions that it runs, as with httpprof.Handler.
func Handler(opts ...profiler.Option) *UI {
	return &UI{opts: opts, hosts: shared.HostsOf(opts), l: usual}
}

// Hosts lets requests name the server by these names, without port, as well as by an address and as
// localhost. They are names that belong to you, such as those of an internal network.
func Hosts(names ...string) profiler.Option { return shared.Hosts(names) }

// The time in the handler is its caller's.
var _ = own.Hide((*UI).ServeHTTP, (*UI).Close)

// Close ends a recording and all reading, and removes the file. The handler then answers 503. A
// program that ends need not call it.
func (u *UI) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shut = true
	if u.rec == nil {
		return nil
	}
	r := u.rec
	u.rec = nil
	return r.remove()
}

// ServeHTTP implements http.Handler.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !site.Named(r, u.hosts) {
		http.Error(w, "this server does not know itself by that name; see Hosts in package httpprof/ui", http.StatusForbidden)
		return
	}
	page := strings.HasSuffix(r.URL.Path, "/")
	again := page && r.URL.RawQuery == "new=1"
	rec, err := u.recording(r.Context(), page && r.Method == http.MethodGet && site.Own(r), again)
	switch {
	case errors.Is(err, errNone):
		http.Error(w, err.Error(), http.StatusGone)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case again:
		http.Redirect(w, r, "./", http.StatusSeeOther)
	default:
		rec.server.ServeHTTP(w, r)
	}
}

var (
	errNone = errors.New("there is no recording; open the page again")
	errShut = errors.New("the handler is closed")
)

// recording returns the recording. With begin it starts one if there is none, with again also if
// there is one that has ended.
func (u *UI) recording(ctx context.Context, begin, again bool) (*recording, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shut {
		return nil, errShut
	}
	if r := u.rec; r != nil && !(begin && again && r.ended()) {
		r.ask()
		return r, nil
	}
	if !begin {
		return nil, errNone
	}
	if old := u.rec; old != nil {
		u.rec = nil
		if err := old.remove(); err != nil {
			return nil, err
		}
	}
	r, err := record(ctx, u.opts, u.l)
	if err != nil {
		return nil, err
	}
	u.rec = r
	own.Go(func() { u.watch(r) })
	return r, nil
}

// watch ends a recording at its limits, and removes it when no page asks for it.
func (u *UI) watch(r *recording) {
	tick := time.NewTicker(u.l.look)
	defer tick.Stop()
	for {
		select {
		case <-r.gone:
			return
		case <-tick.C:
		}
		if r.over() {
			_ = r.end() // the page says it
		}
		if !r.unasked(u.l.kept) {
			continue
		}
		u.mu.Lock()
		if u.rec == r && r.unasked(u.l.kept) {
			u.rec = nil
			_ = r.remove() // nobody is there to be told
		}
		u.mu.Unlock()
	}
}

// name is what the page calls the recording.
func name(start time.Time) string {
	return fmt.Sprintf("%s, %s", filepath.Base(os.Args[0]), start.Format("15:04:05"))
}
