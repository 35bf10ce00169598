package portable

import (
	"bytes"
	"strconv"
	"strings"
)

// The text of runtime.Stack, as src/runtime/traceback.go of Go 1.25, 1.26 and
// 1.27 prints it. Goroutines are separated by an empty line:
//
//	goroutine 7 [chan receive, 5 minutes, locked to thread]:
//	example.com/a.(*T).wait(...)
//		/src/a/t.go:12
//	example.com/a.run.func1(0xc000012345, {0x1, 0x2?})
//		/src/a/a.go:34 +0x1d
//	created by example.com/a.run in goroutine 1
//		/src/a/a.go:30 +0x56
//
// The header (goroutineheader) may have " gp=0x… m=0 mp=0x…" (or "m=nil") after the
// id. Within the brackets there is the wait reason, or else the status, then
// any of " (leaked)", " (scan)", " (durable)", ", N minutes", ", locked to
// thread", ", synctest bubble N". Labels follow. In Go 1.26 they are inside the
// brackets, as ` labels:{"key": "value", …}`, in Go 1.27 after them, as
// ` {key: "odd value", …}`.
//
// The function "panic" means runtime.gopanic. The arguments "..." mean an inlined call.
// Other lines are "...N frames elided...", "non-Go function at pc=0x…", the output of a
// C symbolizer, "[originating from goroutine N]:" before an ancestor's frames, and error
// messages of the runtime about a stack that it cannot walk.

// header is a goroutine's first line.
type header struct {
	id     uint64
	reason []byte // the wait reason or the status
	labels []byte // as printed between the braces; nil: no labels
}

var (
	goroutinePrefix = []byte("goroutine ")
	labels126       = []byte(" labels:{")
	leaked          = []byte(" (leaked)")
	scan            = []byte(" (scan)")
	durable         = []byte(" (durable)")
)

// parseHeader reads a goroutine's first line, without its newline.
func parseHeader(line []byte) (h header, ok bool) {
	rest, ok := bytes.CutPrefix(line, goroutinePrefix)
	if !ok {
		return h, false
	}
	h.id, rest, ok = cutNumber(rest)
	if !ok || h.id == 0 {
		return h, false
	}
	open := bytes.IndexByte(rest, '[')
	if open < 0 || open == 0 || rest[open-1] != ' ' {
		return h, false
	}
	rest = rest[open+1:]

	// Reasons and statuses have no comma or bracket in them, so the first of these ends them.
	// The attributes have no bracket in them either.
	end := bytes.IndexFunc(rest, func(r rune) bool { return r == ',' || r == ']' })
	if end < 0 {
		return h, false
	}
	var after []byte
	if i := bytes.Index(rest, labels126); i >= 0 && i < bytes.IndexByte(rest, ']') {
		end = min(end, i)
		h.labels, after, ok = cutLabels(rest[i+len(labels126):])
		if !ok || !bytes.Equal(after, []byte("]:")) {
			return h, false
		}
	} else {
		after = rest[bytes.IndexByte(rest, ']')+1:]
		if in, found := bytes.CutPrefix(after, []byte(" {")); found {
			h.labels, after, ok = cutLabels(in)
			if !ok {
				return h, false
			}
		}
		if !bytes.Equal(after, []byte(":")) {
			return h, false
		}
	}
	h.reason = trimReason(rest[:end])
	return h, len(h.reason) > 0
}

// trimReason removes the suffixes that the header adds to the reason. Four wait reasons end in
// " (durable)" themselves and keep it, so that a reason is the same string as in the runtime's
// table.
func trimReason(r []byte) []byte {
	if b, ok := bytes.CutSuffix(r, durable); ok {
		switch string(b) {
		case "chan receive", "chan send", "select", "sync.WaitGroup.Wait":
		default:
			r = b
		}
	}
	r = bytes.TrimSuffix(r, scan)
	return bytes.TrimSuffix(r, leaked)
}

// cutNumber reads decimal digits. More than 19 digits are an error, because they may not fit.
func cutNumber(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		n = n*10 + uint64(b[i]-'0')
		i++
	}
	return n, b[i:], 0 < i && i <= 19
}

// A lineKind is the kind of an entry of a goroutine's stack.
type lineKind uint8

const (
	frameLine  lineKind = iota // a function and its place
	elidedLine                 // frames that the runtime left out
	cLine                      // a C function without a name
	creatorLine
)

// line is one entry of a goroutine's stack.
type line struct {
	kind   lineKind
	fn     []byte // function; empty for a cLine
	place  []byte // file:line
	file   []byte
	line   int32
	parent uint64 // of a creatorLine: the goroutine that created this one
	// inside says that an offset into the function follows the place. There is none at the
	// function's first instruction.
	inside bool
}

// body reads the lines after a header.
type body struct {
	text []byte
	// bad says that a part of the text has an unknown form. Then the entries before it must
	// not be used either.
	bad bool
	// unseen says that the runtime could not read the stack.
	unseen bool
}

var (
	createdBy   = []byte("created by ")
	inGoroutine = []byte(" in goroutine ")
	originating = []byte("[originating from goroutine ")
	elidedStart = []byte("...")
	elidedEnd   = []byte(" frames elided...")
	nonGo       = []byte("non-Go function")
	unavailable = []byte("\tgoroutine running on other thread; stack unavailable")
	panicName   = []byte("panic")
	gopanic     = []byte("runtime.gopanic")
	goexit      = []byte("runtime.goexit")
)

// next returns the next entry; false at the end or when the text is bad.
func (b *body) next() (l line, ok bool) {
	first, rest := cutLine(b.text)
	if bytes.Equal(first, unavailable) {
		b.unseen = true
		first, rest = cutLine(rest)
	}
	if len(first) == 0 {
		b.bad = b.bad || len(rest) > 0
		return l, false
	}
	switch {
	case first[0] == '[' && bytes.HasPrefix(first, originating):
		return l, false // only ancestors' frames follow
	case first[0] == '.' && bytes.HasPrefix(first, elidedStart) && bytes.HasSuffix(first, elidedEnd):
		b.text = rest
		return line{kind: elidedLine}, true
	case first[0] == 'n' && bytes.HasPrefix(first, nonGo):
		// If there is a symbolizer that does not know the function, a line with the pc follows.
		if len(rest) > 0 && rest[0] == '\t' {
			_, rest = cutLine(rest)
		}
		b.text = rest
		return line{kind: cLine}, true
	}

	place, rest := cutLine(rest)
	if len(place) < 2 || place[0] != '\t' {
		return l, b.fail()
	}
	if !l.setPlace(place[1:]) {
		return l, b.fail()
	}
	b.text = rest

	if by, found := bytes.CutPrefix(first, createdBy); found {
		l.kind = creatorLine
		l.fn = by
		if i := bytes.LastIndex(by, inGoroutine); i >= 0 {
			id, after, ok := cutNumber(by[i+len(inGoroutine):])
			if !ok || len(after) > 0 {
				return l, b.fail()
			}
			l.fn, l.parent = by[:i], id
		}
		return l, len(l.fn) > 0 || b.fail()
	}
	// Arguments have no parentheses in them, names of methods do. The line of a C function has
	// neither arguments nor parentheses.
	l.fn = first
	if first[len(first)-1] == ')' {
		open := bytes.LastIndexByte(first, '(')
		if open <= 0 {
			return l, b.fail()
		}
		l.fn = first[:open]
	} else if !bytes.Contains(place, []byte(" pc=0x")) {
		return l, b.fail()
	}
	if bytes.Equal(l.fn, panicName) {
		l.fn = gopanic
	}
	return l, true
}

// setPlace reads "file:line", which " +0x1d", " fp=0x… sp=0x… pc=0x…" or " pc=0x…" may follow.
func (l *line) setPlace(s []byte) bool {
	for {
		i := bytes.LastIndexByte(s, ' ')
		if i < 0 || !isOffset(s[i+1:]) {
			break
		}
		l.inside = l.inside || s[i+1] == '+'
		s = s[:i]
	}
	colon := bytes.LastIndexByte(s, ':')
	if colon <= 0 {
		return false
	}
	n, after, ok := cutNumber(s[colon+1:])
	if !ok || len(after) > 0 || n > 1<<31-1 {
		return false
	}
	l.place, l.file, l.line = s, s[:colon], int32(n)
	return true
}

// isOffset reports whether a word is one of those after a place, and not the end of a file name
// with spaces.
func isOffset(w []byte) bool {
	_, hex, ok := bytes.Cut(w, []byte("0x"))
	if !ok || len(hex) == 0 {
		return false
	}
	for _, c := range hex {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	switch string(w[:len(w)-len(hex)-2]) {
	case "+", "fp=", "sp=", "pc=":
		return true
	}
	return false
}

func (b *body) fail() bool {
	b.bad = true
	return false
}

func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// cutGoroutine splits off the first goroutine's text, header and body. whole is false if no other
// goroutine follows: then the text may be cut off.
func cutGoroutine(text []byte) (head, stack, rest []byte, whole bool) {
	// A header must follow the empty line: the runtime's error messages about a broken stack
	// may have empty lines too.
	end := 0
	for {
		i := bytes.Index(text[end:], []byte("\n\n"))
		if i < 0 {
			head, stack = cutLine(text)
			return head, stack, nil, false
		}
		end += i + 2
		if bytes.HasPrefix(text[end:], goroutinePrefix) {
			head, stack = cutLine(text[:end-1])
			return head, stack, text[end:], true
		}
	}
}

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
