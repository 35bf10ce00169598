// Package httpprof serves profiles of the running program over HTTP, for wall-clock
// time, with the parameters of fgprof's handler:
//
//	mux.Handle("/debug/profile", httpprof.Handler())
//
// Then pprof can ask for one:
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
)

// defaultSeconds is how long a profile over HTTP takes if the request does not
// say, as in fgprof and net/http/pprof.
const defaultSeconds = 30

// Handler returns a handler that takes a profile for each request and sends it.
// The query parameters are those of fgprof's handler:
//
//	seconds  the duration, a whole number; default 30
//	format   a name that "gotach formats" lists as written, or "folded"; default pprof
//
// A bad parameter is answered with status 400. So is a duration that exceeds the
// server's WriteTimeout, and a format that is a directory of files. One session
// runs at a time: while another one does, the answer is 503. If profiling fails,
// it is 500. Each of these answers says why.
//
// The session ends at once when the client goes away. Its file is in the temporary
// directory and is removed before the answer ends.
//
// The options and the environment apply to each session, except those that say
// where it is written: Output, Export, rotation and their variables have no effect.
func Handler(opts ...profiler.Option) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seconds, format, err := parseQuery(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := profileTo(r.Context(), w, seconds, format, opts); err != nil {
			status := http.StatusInternalServerError
			if errors.Is(err, profiler.ErrActive) {
				status = http.StatusServiceUnavailable
			}
			// Without effect if a part of the answer is out: then the client
			// sees it cut short.
			for _, h := range []string{"Content-Disposition", "Content-Type"} {
				w.Header().Del(h)
			}
			http.Error(w, err.Error(), status)
		}
	})
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
	// As net/http/pprof: say so at once rather than send an answer that the
	// server cuts off.
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

// profileTo runs a session of its own and sends what it recorded to w.
func profileTo(ctx context.Context, w http.ResponseWriter, d time.Duration, f *formats.Format, opts []profiler.Option) error {
	dir, err := os.MkdirTemp("", "gotach-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "profile.tach")

	s, err := profiler.Open(append(slices.Clone(opts), hook.OneFile(path).(profiler.Option))...)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done(): // the client went away, or the server ends
	case <-time.After(d):
	}
	if err := s.Stop(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil // nobody is there to read it
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
