// Package httpprof serves wall-clock profiles of the running program over HTTP. Its handler
// takes the parameters of fgprof's handler:
//
//	mux.Handle("/debug/profile", httpprof.Handler())
//
// Then pprof can request a profile:
//
//	go tool pprof 'http://localhost:6060/debug/profile?seconds=10'
//
// Package httpprof/ui serves a page to look at the running program in a browser. It is a package of
// its own, because it links all analyses.
package httpprof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof/internal/shared"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/internal/site"
)

// defaultSeconds is the duration of a profile if the request has none. It is the same as in
// fgprof and net/http/pprof.
const defaultSeconds = 30

// Handler returns a handler that takes a profile for each request and sends it. The query
// parameters are those of fgprof's handler, and some more:
//
//	seconds  the duration, a whole number; default 30
//	last     instead of seconds: the last part of the running session, such as 30s
//	at       with format=stacks: an instant of the running session, such as -5s; sends the stacks of all
//	         goroutines as text, as runtime.Stack prints them
//	keep     instead of a profile: why the running session should keep its files of the minute before and
//	         after; see [profiler.Session.Keep]
//	format   a format that "gotach formats" lists as written, or "folded"; default pprof
//
// Requests share one session. If the program runs one, for example because of PROFILE_OUT, requests
// take their samples from it; it goes on, and its file stays whole. Otherwise the first request
// begins one, with the handler's options, and the last one ends it. The profile of a request begins
// when the request comes. While there are requests, each sample is written once more, however many
// requests there are. If requests overlap, their profiles have no statistics of the session, no
// counts of addresses (tachyon.LeafPCs), and no names of what goroutines wait for.
//
// With last, the profile comes from the files of the session. The response waits only until each
// goroutine has a current sample. Files are read from their start, so those of the requested time
// may have 64 MB at most, which take a second or two of one core. A session that runs for long
// should rotate its files (profiler.RotateEvery, PROFILE_ROTATE). Such a profile has no statistics
// of the session.
//
// Profiles are converted one at a time, and a conversion sleeps for half of the time, so that the
// program's own requests get a core. A client that reads slowly delays no other.
//
// The status is
//
//   - 400 for a bad parameter, a duration that exceeds the server's WriteTimeout, and a format that
//     is a directory of files;
//   - 403 for requests that a foreign web page may have caused;
//   - 503 if last asks for a time that is not available, if the program ends its session meanwhile,
//     if PROFILE_SOURCE is off, and, with Retry-After, if there are too many requests: 100, or 4
//     that wait with last;
//   - 500 if profiling fails.
//
// The body of these responses has the reason. A response with status 200 covers all of its time.
//
// The profile ends at once when the client closes the connection. Files are in the temporary
// directory, and removed before the response ends. If the program ends before, the handler of a
// later process of the same user removes them. No format contains source files.
//
// The handler asks for no password. As with net/http/pprof, the owner of the mux must see that only
// those who run the program can reach it. A browser there must not fetch profiles for a foreign web
// page. So the handler refuses what a page of another server asks for. It also refuses browsers
// that do not name the server by an address, as localhost, or by one of [Hosts]: whoever owns
// another name can let it point to this server, and then read what the server sends. Other
// programs, such as curl, go tool pprof, gotach top and collectors, may use any name.
//
// The options and the environment apply to the session that the handler begins. Output, Export,
// Leaks, the options of rotation and their variables have no effect.
func Handler(opts ...profiler.Option) http.Handler {
	return handler{opts, shared.HostsOf(opts)}
}

// Hosts lets browsers name the server by these names, without port, besides an address and
// localhost. They must be names that belong to you, such as those of an internal network.
func Hosts(names ...string) profiler.Option { return shared.Hosts(names) }

type handler struct {
	opts  []profiler.Option
	hosts []string
}

// The time in the handler is its caller's.
var _ = own.Hide(handler.ServeHTTP)

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !site.Own(r) || site.Browser(r) && !site.Named(r, h.hosts) {
		http.Error(w, "no profiles for pages of other servers; browsers must use the address of this server as its name, or one of httpprof.Hosts", http.StatusForbidden)
		return
	}
	if reason := r.URL.Query().Get("keep"); reason != "" {
		keep(w, reason)
		return
	}
	q, err := parseQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := q.profileTo(r.Context(), w, h.opts); err != nil {
		status := http.StatusInternalServerError
		switch {
		case errors.Is(err, errBusy):
			w.Header().Set("Retry-After", "5")
			status = http.StatusServiceUnavailable
		case errors.Is(err, errStopped), errors.Is(err, formats.ErrNoPast), errors.Is(err, shared.ErrNoSession), errors.Is(err, shared.ErrOff):
			status = http.StatusServiceUnavailable
		}
		http.Error(w, err.Error(), status)
	}
}

// keep answers a request for keeping files.
func keep(w http.ResponseWriter, reason string) {
	if s := session.Running(); s == nil || !s.Keep(reason) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "nothing is kept: no session with a file is running, or it was asked to keep its files less than a minute ago", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "the files of the minute before and after are kept\n") // an error is the client's
}

// A query is a parsed request.
type query struct {
	seconds time.Duration
	last    time.Duration // 0: seconds counts
	at      time.Duration // before now: what is sent are the stacks of that moment; 0: a profile is sent
	format  *formats.Format
}

func parseQuery(r *http.Request) (q query, err error) {
	q.seconds = defaultSeconds * time.Second
	values := r.URL.Query() // a form in the body could be large
	if s := values.Get("seconds"); s != "" {
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil || seconds <= 0 || seconds > int64(math.MaxInt64/time.Second) {
			return q, fmt.Errorf("bad seconds: %q is not a whole number above 0", s)
		}
		q.seconds = time.Duration(seconds) * time.Second
	}
	if s := values.Get("last"); s != "" {
		if values.Get("seconds") != "" {
			return q, errors.New("bad last: seconds is for the time to come, last for the past; a request has one of them")
		}
		if q.last, err = time.ParseDuration(s); err != nil || q.last <= 0 {
			return q, fmt.Errorf("bad last: %q is not a duration such as 30s", s)
		}
	}
	// Like net/http/pprof, report the error at once: the server would cut off the response.
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && q.last == 0 && srv.WriteTimeout != 0 && q.seconds >= srv.WriteTimeout {
		return q, fmt.Errorf("bad seconds: a profile of %v exceeds the server's WriteTimeout of %v", q.seconds, srv.WriteTimeout)
	}
	name := values.Get("format")
	if s := values.Get("at"); s != "" || name == "stacks" {
		if q.at, err = time.ParseDuration(s); err != nil || q.at >= 0 || q.at == math.MinInt64 || name != "stacks" || q.last > 0 {
			return q, fmt.Errorf("bad at: %q is not a time before now such as -5s, or format is not stacks, or there is last too", s)
		}
		q.at, q.last = -q.at, -q.at
		return q, nil
	}
	if name == "" {
		name = "pprof"
	}
	q.format, err = formats.ByName(name)
	if err == nil && (!q.format.CanWrite() || q.format.Directory) {
		err = fmt.Errorf("%s cannot be sent as one file", q.format.Name)
	}
	if err != nil {
		return q, fmt.Errorf("bad format: %w", err)
	}
	return q, nil
}

// profileTo takes a profile and writes it to w. An error means that nothing has been sent.
func (q query) profileTo(ctx context.Context, w http.ResponseWriter, opts []profiler.Option) (err error) {
	dir, remove, err := shared.Folder()
	if err != nil {
		return err
	}
	defer remove() // nobody can be told
	result := filepath.Join(dir, "profile")
	if q.last > 0 {
		err = q.past(ctx, dir, result)
	} else {
		err = q.coming(ctx, dir, result, opts)
	}
	if ctx.Err() != nil {
		return nil // there is no client to send the profile to
	}
	if err != nil {
		return err
	}
	f, err := os.Open(result)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	kind, file := "text/plain; charset=utf-8", "inline"
	if q.at == 0 {
		kind, file = "application/octet-stream", fmt.Sprintf(`attachment; filename="profile%s"`, q.format.Extensions[0])
	}
	for name, value := range map[string]string{
		"Content-Type": kind, "Content-Length": strconv.FormatInt(fi.Size(), 10), "X-Content-Type-Options": "nosniff", "Content-Disposition": file,
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	_, _ = io.Copy(w, f) // an error is the client's
	return nil
}

// coming writes a profile of the coming time to result.
func (q query) coming(ctx context.Context, dir, result string, opts []profiler.Option) error {
	v, err := join(ctx, opts)
	if err != nil {
		return err
	}
	err = v.wait(ctx, q.seconds)
	if err == nil {
		err = v.settle(ctx)
	}
	if err == nil {
		err = converting.do(ctx, func() error {
			path, err := v.excerpt(ctx, dir)
			return cmp.Or(err, q.convert(ctx, path, result, !v.sole))
		})
	}
	return errors.Join(err, v.leave())
}

// past writes a profile of the past time to result, from the files of the session that runs.
func (q query) past(ctx context.Context, dir, result string) error {
	begin := time.Now()
	if !lasts.enter(mostLasts) {
		return fmt.Errorf("last=%v: %w", q.last, errBusy)
	}
	defer lasts.leave()
	return converting.do(ctx, func() error {
		files, start := shared.Past(ctx) // also goroutines that have waited for long have a sample of now
		if start.IsZero() {
			return fmt.Errorf("last=%v is %w: no session is running in this program", q.last, formats.ErrNoPast)
		}
		ran := time.Since(start)
		if ran < q.last {
			return fmt.Errorf("last=%v is %w: the session has run for %v", q.last, formats.ErrNoPast, ran.Round(time.Millisecond))
		}
		path := filepath.Join(dir, "past.tach")
		if err := formats.Excerpt(ctx, path, files, start.Add(max(0, ran-q.last-q.before()))); err != nil {
			return fmt.Errorf("last=%v: %w", q.last, err)
		}
		if q.at > 0 {
			return stacks(ctx, path, result, start.Add(begin.Sub(start)-q.at))
		}
		return q.convert(ctx, path, result, true)
	})
}

// convert writes the profile at path to result, in the format that was asked for. An excerpt is a
// whole file already, of this request alone.
func (q query) convert(ctx context.Context, path, result string, excerpt bool) error {
	if excerpt && q.format.Name == "tach" {
		return os.Rename(path, result)
	}
	pause := formats.Pace()
	o := formats.Options{Context: ctx, Progress: func(uint64, uint64) { pause() }}
	in, err := formats.Open(path, o)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.OpenFile(result, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(in.Write(f, q.format.Name, o), f.Close())
}
