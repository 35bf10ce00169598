package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A urlSource asks a handler of package httpprof for one short profile after the other.
type urlSource struct {
	url    *url.URL
	name   string // for people
	begun  bool
	client http.Client
}

const (
	pieceSeconds = 1        // duration of a profile that is asked for
	maxPiece     = 64 << 20 // bytes of one
	timeout      = 20 * time.Second
)

// URL watches a program that serves httpprof.Handler at a URL. If a session is running in it, the
// first profile is that of the past duration, if the program has it.
func URL(text string) (*Watch, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is no valid URL; what is special in a user name or password must be escaped, such as %25 for %")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the URL must be like http://localhost:6060/debug/profile")
	}
	name := URLName(text)
	return &Watch{source: &urlSource{url: u, name: name}, recent: newRecent(), state: State{Name: name, Live: true}}, nil
}

// URLName returns a URL as it may be shown: without user, password and query. It is "URL" if they
// cannot be told.
func URLName(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func (s *urlSource) close() error {
	s.client.CloseIdleConnections()
	return nil
}

// poll implements source. A program that does not answer is no error: it may come back.
func (s *urlSource) poll(ctx context.Context, w *Watch) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !s.begun {
		// Without a session there is no past.
		if b, _, err := s.get(ctx, "last", "10s"); err == nil {
			s.begun = true
			return s.add(w, b)
		}
	}
	b, lasting, err := s.get(ctx, "seconds", strconv.Itoa(pieceSeconds))
	if err != nil {
		if !s.begun && lasting {
			return err
		}
		w.mu.Lock()
		w.state.Notice = err.Error()
		w.mu.Unlock()
		return nil
	}
	s.begun = true
	return s.add(w, b)
}

// get returns a profile. lasting reports whether the same request will fail again.
func (s *urlSource) get(ctx context.Context, key, value string) (b []byte, lasting bool, err error) {
	u := *s.url
	q := u.Query()
	q.Del("last")
	q.Del("seconds")
	q.Set(key, value)
	q.Set("format", "tach")
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, true, err
	}
	resp, err := s.client.Do(req)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // without the URL
	}
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", s.name, err)
	}
	defer resp.Body.Close()
	b, err = io.ReadAll(io.LimitReader(resp.Body, maxPiece+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", s.name, err)
	case resp.StatusCode != http.StatusOK:
		text, _, _ := strings.Cut(strings.TrimSpace(string(b[:min(len(b), 300)])), "\n")
		return nil, resp.StatusCode != http.StatusServiceUnavailable, fmt.Errorf("%s: %s: %s", s.name, resp.Status, text)
	case len(b) > maxPiece:
		return nil, true, fmt.Errorf("%s: the answer has more than %d MB", s.name, maxPiece>>20)
	case len(b) < 4 || !bytes.Contains([]byte("TACH HCAT"), b[:4]):
		return nil, true, fmt.Errorf("%s: the answer is no profile; the URL must be that of httpprof.Handler", s.name)
	}
	return b, false, nil
}

// add adds a profile.
func (s *urlSource) add(w *Watch, b []byte) error {
	r, err := reader.New(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	defer r.Close()
	m, err := r.Overview()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := newPart()
	p.header, p.frames, p.session = r.Header(), r.Frames(), m.Session
	p.mark()
	for g, err := range r.Goroutines() {
		if err != nil {
			return err
		}
		p.goroutine(g)
	}
	for o, err := range r.Objects() {
		if err != nil {
			return err
		}
		p.object(o)
	}
	if len(w.recent.parts) > 0 {
		if last := w.recent.parts[len(w.recent.parts)-1]; last.session != nil && p.session != nil && last.session.PID != p.session.PID {
			w.recent.reset() // the program was started again
		}
	}
	if len(w.recent.parts) == 0 {
		w.recent.from = p.header.Start
	}
	w.recent.parts = append(w.recent.parts, p)
	for b, err := range r.Batches(nil, tachyon.MaxTime) {
		if err != nil {
			return err
		}
		w.recent.add(p, b)
	}
	w.recent.trim(keepParts)
	w.state.Notice = ""
	return nil
}

// keepParts is the number of profiles from a URL that are kept.
const keepParts = 120
