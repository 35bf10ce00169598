// Package site says which HTTP requests a foreign web page may have caused, for handlers that tell
// about a program.
package site

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Own reports whether a request is from a page of this server, from the user, or from a program
// that is no browser, and not from a page of another server. A browser says so; on plain HTTP to
// other machines it may say nothing.
func Own(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "http://"+r.Host || origin == "https://"+r.Host
}

// Named reports whether a request names the server by an address, as localhost, or by one of names.
// Who owns another name can let it point to this server. Then browsers take the server for a part
// of his site, which may read it.
func Named(r *http.Request, names []string) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) })
}

// Browser reports whether a request is from a browser. Browsers send at least one of these fields,
// and no script can make them leave out all of them. Programs such as curl, go tool pprof and
// collectors of metrics send none.
func Browser(r *http.Request) bool {
	for _, name := range []string{"Accept-Language", "Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return strings.HasPrefix(r.UserAgent(), "Mozilla/")
}
