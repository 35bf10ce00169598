// Package httpprof serves wall-clock profiles of the running program over HTTP. Its handler
// takes the parameters of fgprof's handler:
//
//	mux.Handle("/debug/profile", httpprof.Handler())
//
// Then pprof can request a profile:
//
//	go tool pprof 'http://localhost:6060/debug/profile?seconds=10'
//
// Package httpprof/ui serves a page to look at the running program in a browser. It is a package of its own, because it links
// all analyses.
package httpprof

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/own"
)

// defaultSeconds is the duration of a profile if the request has none. It is the same as in
// fgprof and net/http/pprof.
const defaultSeconds = 30

// Handler returns a handler that takes a profile for each request and sends it.
// The query parameters are those of fgprof's handler:
//
//	seconds  the duration, a whole number; default 30
//	last     instead of seconds: the past duration, such as 30s, of the session that runs
//	format   a format that "gotach formats" lists as written, or "folded"; default pprof
//
// If no session is running in the program, the handler runs one for this time. If a session is
// running, for example because of PROFILE_OUT, the profile is taken from it: the session goes on and
// its own file stays whole. During this time each sample is written twice. At most the last 20 ms or so
// are missing.
//
// With last, the profile comes from the files that the session has written, and the response does
// not wait. Files are read from their start. So the files with the time that is asked for may have
// 64 MB at most, which take a second or two of one core; a session that runs for long should
// rotate them (profiler.RotateEvery, PROFILE_ROTATE). Such a profile has no statistics of the session.
//
// The status is 400 for a bad parameter, for a duration that exceeds the server's
// WriteTimeout, and for a format that is a directory of files. It is 503 while the handler
// takes another profile, and if last asks for a time that is not available. It is 500 if profiling fails. The body of these responses has the reason.
//
// The profile ends at once when the client closes the connection. Its file is in the
// temporary directory and is removed before the response ends.
//
// No format has source files in it.
//
// The options and the environment apply to each session of the handler, except those for the output:
// Output, Export, the options of rotation and their variables have no effect.
func Handler(opts ...profiler.Option) http.Handler {
	return handler{opts}
}

type handler struct{ opts []profiler.Option }

// The time in the handler is its caller's.
var _ = own.Hide(handler.ServeHTTP)

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := q.profileTo(r.Context(), w, h.opts); err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, profiler.ErrActive) || errors.Is(err, formats.ErrNoPast) {
			status = http.StatusServiceUnavailable
		}
		// This has no effect if a part of the response has been sent. In that case
		// the client sees a truncated response.
		for _, h := range []string{"Content-Disposition", "Content-Type"} {
			w.Header().Del(h)
		}
		http.Error(w, err.Error(), status)
	}
}

// A query is a parsed request.
type query struct {
	seconds time.Duration
	last    time.Duration // 0: seconds counts
	format  *formats.Format
}

func parseQuery(r *http.Request) (q query, err error) {
	q.seconds = defaultSeconds * time.Second
	if s := r.FormValue("seconds"); s != "" {
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil || seconds <= 0 || seconds > int64(math.MaxInt64/time.Second) {
			return q, fmt.Errorf("bad seconds: %q is not a whole number above 0", s)
		}
		q.seconds = time.Duration(seconds) * time.Second
	}
	if s := r.FormValue("last"); s != "" {
		if r.FormValue("seconds") != "" {
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
	name := r.FormValue("format")
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

// profileTo takes a profile and writes it to w.
func (q query) profileTo(ctx context.Context, w http.ResponseWriter, opts []profiler.Option) error {
	dir, err := os.MkdirTemp("", "gotach-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "profile.tach")
	if q.last > 0 {
		err = past(ctx, path, q.last)
	} else {
		err = coming(ctx, path, q.seconds, opts)
	}
	if ctx.Err() != nil {
		return nil // there is no client to send the profile to
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="profile%s"`, q.format.Extensions[0]))
	in, err := formats.Open(path, formats.Options{})
	if err != nil {
		return err
	}
	defer in.Close()
	return in.Write(w, q.format.Name, formats.Options{})
}

// coming writes a profile of the coming time d to path, from the session that runs or from one of its
// own.
func coming(ctx context.Context, path string, d time.Duration, opts []profiler.Option) error {
	var stop func() error
	s, err := profiler.Open(append(slices.Clone(opts), hook.OneFile(path).(profiler.Option))...)
	switch {
	case err == nil:
		stop = s.Stop
	case errors.Is(err, profiler.ErrActive):
		if stop, err = hook.Follow(path, false); err != nil {
			return err
		}
	default:
		return err
	}
	select {
	case <-ctx.Done(): // the client closed the connection, or the server ends
	case <-time.After(d):
	}
	return stop()
}

// past writes a profile of the past time d to path, from the files of the session that runs.
func past(ctx context.Context, path string, d time.Duration) error {
	files, start := hook.Running()
	if start.IsZero() {
		return fmt.Errorf("last=%v is %w: no session is running in this program", d, formats.ErrNoPast)
	}
	now := time.Now()
	if ran := now.Sub(start); ran < d {
		return fmt.Errorf("last=%v is %w: the session has run for %v", d, formats.ErrNoPast, ran.Round(time.Millisecond))
	}
	if err := formats.Excerpt(ctx, path, files, now.Add(-d)); err != nil {
		return fmt.Errorf("last=%v: %w", d, err)
	}
	return nil
}
