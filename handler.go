package profiler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gotach/profiler/internal/formats"
)

// defaultSeconds is how long a profile over HTTP takes if the request does not
// say, as in fgprof and net/http/pprof.
const defaultSeconds = 30

// Handler serves profiles of the running program:
//
//	mux.Handle("/debug/profile", profiler.Handler())
//
// The query parameters are those of fgprof's handler: seconds is the duration
// (default 30) and format the format, by a name that "gotach formats" lists
// (default pprof; fgprof's "folded" too). The profile goes through a file in
// the temporary directory, removed before the answer ends. A client that goes
// away ends its profile. One session runs at a time: while another does, the
// answer is 503 and says so.
//
// Options and environment apply as to a session, but for where it is written:
// Output, Export and their variables have no effect.
func Handler(opts ...Option) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seconds, format, err := parseQuery(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := profileTo(r.Context(), w, seconds, format, opts); err != nil {
			status := http.StatusInternalServerError
			if errors.Is(err, ErrActive) {
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
func profileTo(ctx context.Context, w http.ResponseWriter, d time.Duration, f *formats.Format, opts []Option) error {
	dir, err := os.MkdirTemp("", "gotach-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "profile.tach")

	c, err := newConfig(opts, os.Getenv)
	if err != nil {
		return err
	}
	c.output, c.exports, c.rotate = path, nil, rotation{} // one file is sent
	s, err := open(c)
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
