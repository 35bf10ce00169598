package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/site"
)

// ServeHTTP serves the page and, below the folder data, what it needs. It looks only at the last
// elements of the path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	if !sameOrigin(r) {
		http.Error(w, "not for other sites", http.StatusForbidden)
		return
	}
	key, generation, ok := query(r)
	if !ok {
		http.Error(w, "from, to and generation must be whole numbers, from before to; what must be the name of a table", http.StatusBadRequest)
		return
	}
	h := w.Header()
	for name, value := range map[string]string{
		"Cache-Control": "no-store", "Content-Security-Policy": policy(true) + "; frame-ancestors 'none'", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		h.Set(name, value)
	}
	dir, name := path.Split(r.URL.Path)
	switch {
	case path.Base(dir) == "data" && name == "status":
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.status(key, generation)) // an error is the client's
	case path.Base(dir) == "data" && name != "":
		bytes := s.piece(key, generation, name)
		if bytes == nil {
			http.Error(w, "there are newer data", http.StatusGone)
			return
		}
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", strconv.Itoa(len(bytes)))
		_, _ = w.Write(bytes) // an error is the client's
	case name == "":
		h.Set("Content-Type", "text/html; charset=utf-8")
		d := &Data{Head: Head{Version: version, Title: s.o.Title, Sides: []Side{}, LeftOut: []string{}, Live: true}}
		_ = d.WriteHTML(w) // an error is the client's
	default:
		http.NotFound(w, r)
	}
}

// query returns what a request asks for, and the generation.
func query(r *http.Request) (key viewKey, generation int64, ok bool) {
	q, ok := r.URL.Query(), true
	number := func(name string) int64 {
		text := q.Get(name)
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > 1<<53 {
			ok = false
		}
		return n
	}
	key, generation = viewKey{Span{number("from"), number("to")}, q.Get("what")}, number("generation")
	known := key.what == "" || key.what == "diff" || slices.Contains(findingNames, key.what)
	return key, generation, ok && known && (key.Span == Span{} || key.From < key.To)
}

// sameOrigin reports whether a request is from a page of this server, or from the user. A link of
// another page may lead to the page.
func sameOrigin(r *http.Request) bool {
	navigates := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return site.Own(r) || r.Header.Get("Origin") == "" && navigates
}

// A Local is a handler for a server that only the user may see, who knows a token that is in the
// URL. Requests for another host are refused: a site whose name leads to this computer has no
// access.
type Local struct {
	handler http.Handler
	hosts   []string
	token   string
}

// NewLocal returns a handler for a listener on this computer.
func NewLocal(l net.Listener, h http.Handler) *Local {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	random := make([]byte, 16)
	_, _ = rand.Read(random) // it never fails
	return &Local{handler: h, hosts: []string{l.Addr().String(), "localhost:" + port}, token: hex.EncodeToString(random)}
}

// URL returns the address for the user.
func (l *Local) URL() string { return "http://" + l.hosts[0] + "/" + l.token + "/" }

// ServeHTTP implements http.Handler.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(l.hosts, r.Host) {
		http.Error(w, "this server has another name", http.StatusForbidden)
		return
	}
	token, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) != 1 {
		http.NotFound(w, r)
		return
	}
	if !found {
		http.Redirect(w, r, "/"+l.token+"/", http.StatusSeeOther)
		return
	}
	http.StripPrefix("/"+token, l.handler).ServeHTTP(w, r)
}
