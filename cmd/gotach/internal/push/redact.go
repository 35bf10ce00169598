package push

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// hiddenText stands for what is secret.
const hiddenText = "xxxxx"

// redacted returns the name of a target for people: without user, password and the values in the
// query.
func redacted(u *url.URL) string {
	v := *u
	if v.User != nil {
		v.User = url.User(hiddenText)
	}
	if v.RawQuery != "" {
		pairs := strings.Split(v.RawQuery, "&")
		for i, pair := range pairs {
			if key, _, ok := strings.Cut(pair, "="); ok {
				pairs[i] = key + "=" + hiddenText
			} else {
				pairs[i] = hiddenText
			}
		}
		v.RawQuery = strings.Join(pairs, "&")
	}
	return v.String()
}

// vague returns what may be said of a text that is no target: it may have a password anywhere but
// in its scheme.
func vague(to string) string {
	scheme, _, ok := strings.Cut(to, "://")
	if !ok || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "" {
		return "it"
	}
	return strconv.Quote(scheme + "://…")
}

// secrets returns what hides user and password, the values in the query, and headers, in all forms
// in which a text may have them.
func secrets(to *url.URL, header http.Header) *strings.Replacer {
	var list []string
	add := func(values ...string) {
		for _, v := range values {
			if len(v) < 4 { // it would be found in any text
				continue
			}
			quoted := strconv.Quote(v)
			list = append(list, v, url.QueryEscape(v), url.PathEscape(v), quoted[1:len(quoted)-1])
		}
	}
	if u := to.User; u != nil {
		password, _ := u.Password()
		add(u.Username(), password, u.String(), base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	for key, values := range to.Query() {
		if add(values...); values[0] == "" {
			add(key)
		}
	}
	for _, values := range header {
		for _, v := range values {
			add(v)
			if kind, token, ok := strings.Cut(v, " "); ok { // such as "Bearer"
				add(token)
				if pair, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(kind, "Basic") {
					user, password, _ := strings.Cut(string(pair), ":")
					add(user, password)
				}
			}
		}
	}
	// The first one that fits is replaced, so the longer ones come first.
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	var pairs []string
	for _, v := range slices.Compact(list) {
		pairs = append(pairs, v, hiddenText)
	}
	return strings.NewReplacer(pairs...)
}
