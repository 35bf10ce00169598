package portable

import (
	"bytes"
	"strconv"
	"strings"
)

// cutLabels splits printed labels from the text after their closing brace.
func cutLabels(b []byte) (labels, rest []byte, ok bool) {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\':
			i++
		case b[i] == '"':
			quoted = !quoted
		case b[i] == '}' && !quoted:
			return b[:i:i], b[i+1:], true
		}
	}
	return nil, nil, false
}

// parseLabels reads the text between the braces: key: value pairs, separated by commas. Go 1.26
// quotes all keys and values. Go 1.27 quotes only strings with other characters than letters,
// digits, dots, slashes and underscores (tracebackStringNeedsQuoting), so an empty string is
// printed as nothing. Quoting is that of Go source (printquoted). Go 1.26 replaces bytes that
// are not UTF-8 before it prints them.
func parseLabels(text []byte) (map[string]string, bool) {
	labels := make(map[string]string, 1+bytes.Count(text, []byte(", ")))
	s := string(text) // a copy, because keys and values are kept
	for {
		key, rest, ok := cutLabel(s)
		if !ok {
			return nil, false
		}
		if rest, ok = strings.CutPrefix(rest, ": "); !ok {
			return nil, false
		}
		value, rest, ok := cutLabel(rest)
		if !ok {
			return nil, false
		}
		labels[key] = value
		if rest == "" {
			return labels, true
		}
		if s, ok = strings.CutPrefix(rest, ", "); !ok {
			return nil, false
		}
	}
}

func cutLabel(s string) (label, rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", false
		}
		label, err = strconv.Unquote(q)
		return label, s[len(q):], err == nil
	}
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	return s[:i], s[i:], true
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '/' || c == '_'
}
