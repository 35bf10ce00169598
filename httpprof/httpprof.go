// Package httpprof serves wall-clock profiles of the running program over HTTP. Its handler
// takes the parameters of fgprof's handler:
//
//	mux.Handle("/debug/profile", httpprof.Handler())
//
// Then pprof can request a profile:
//
//	go tool pprof 'http://localhost:6060/debug/profile?seconds=10'
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
//	format   a format that "gotach formats" lists as written, or "folded"; default pprof
//
// If no session is running in the program, the handler runs one for this time. If a session is
// running, for example because of PROFILE_OUT, the profile is taken from it: the session goes on and
// its own file stays whole. During this time each sample is written twice. At most the last 20 ms or so
// are missing.
//
// The status is 400 for a bad parameter, for a duration that exceeds the server's
// WriteTimeout, and for a format that is a directory of files. It is 503 while the handler
// takes another profile. It is 500 if profiling fails. The body of these responses has the reason.
//
// The profile ends at once when the client closes the connection. Its file is in the
// temporary directory and is removed before the response ends.
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
	seconds, format, err := parseQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := profileTo(r.Context(), w, seconds, format, h.opts); err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, profiler.ErrActive) {
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

func parseQuery(r *http.Request) (d time.Duration, f *formats.Format, err error) {
	d = defaultSeconds * time.Second
	if s := r.FormValue("seconds"); s != "" {
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil || seconds <= 0 || seconds > int64(math.MaxInt64/time.Second) {
			return 0, nil, fmt.Errorf("bad seconds: %q is not a whole number above 0", s)
		}
		d = time.Duration(seconds) * time.Second
	}
	// Like net/http/pprof, report the error at once: the server would cut off the response.
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout != 0 && d >= srv.WriteTimeout {
		return 0, nil, fmt.Errorf("bad seconds: a profile of %v exceeds the server's WriteTimeout of %v", d, srv.WriteTimeout)
	}
	name := r.FormValue("format")
	if name == "" {
		name = "pprof"
	}
	f, err = formats.ByName(name)
	if err == nil && (!f.CanWrite() || f.Directory) {
		err = fmt.Errorf("%s cannot be sent as one file", f.Name)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("bad format: %w", err)
	}
	return d, f, nil
}

// profileTo runs a session for the duration d and writes its profile to w.
func profileTo(ctx context.Context, w http.ResponseWriter, d time.Duration, f *formats.Format, opts []profiler.Option) error {
	dir, err := os.MkdirTemp("", "gotach-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "profile.tach")

	var stop func() error
	s, err := profiler.Open(append(slices.Clone(opts), hook.OneFile(path).(profiler.Option))...)
	switch {
	case err == nil:
		stop = s.Stop
	case errors.Is(err, profiler.ErrActive):
		if stop, err = hook.Follow(path); err != nil {
			return err
		}
	default:
		return err
	}
	select {
	case <-ctx.Done(): // the client closed the connection, or the server ends
	case <-time.After(d):
	}
	if err := stop(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil // there is no client to send the profile to
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="profile%s"`, f.Extensions[0]))
	in, err := formats.Open(path, formats.Options{})
	if err != nil {
		return err
	}
	defer in.Close()
	return in.Write(w, f.Name, formats.Options{})
}
