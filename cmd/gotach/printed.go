package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Names of files, functions and labels, flags and answers of servers may have any characters. On a
// terminal some of them move the cursor, change colours or the order of letters, or make the
// terminal answer. So all text goes through an output, which lets no such character pass but the
// colours of paint.

// ownColour begins the codes that paint writes. Its number is another one in each process, so no
// foreign text has it.
var ownColour = fmt.Sprintf("\x1b[%d;", rand.Uint64())

// An output is where the command writes text, or JSON.
type output struct {
	w    io.Writer
	json bool // write unprintable characters as \u; JSON has them in strings only

	mu   sync.Mutex
	rest []byte // the begin of a character whose end is not written yet
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := append(o.rest, p...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if tail := text[len(text)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole -= i
			}
			break
		}
	}
	o.rest = append([]byte(nil), text[whole:]...)
	filter := filter{keep: "\n\t", colour: "\x1b["}
	if o.json {
		filter.colour, filter.escape = "", true
	}
	if _, err := o.w.Write(filter.append(make([]byte, 0, whole), text[:whole])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// data returns where files go, as they are. A terminal shows them as text.
func (o *output) data() io.Writer {
	if isTerminal(o) {
		return o
	}
	return o.w
}

// asJSON returns where JSON goes.
func (o *output) asJSON() io.Writer { return &output{w: o.w, json: true} }

// A filter replaces the characters that are not printable.
type filter struct {
	keep   string // unprintable ASCII characters that stay
	colour string // what the codes of paint begin with then; empty: they are not known
	escape bool   // replace by \u and the character's number instead of U+FFFD
}

// append appends text to b.
func (f *filter) append(b, text []byte) []byte {
	for len(text) > 0 {
		plain := 0
		for plain < len(text) && (text[plain] >= ' ' && text[plain] <= '~' || strings.IndexByte(f.keep, text[plain]) >= 0) {
			plain++
		}
		if b, text = append(b, text[:plain]...), text[plain:]; len(text) == 0 {
			break
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case f.colour != "" && strings.HasPrefix(string(text[:min(len(text), len(ownColour))]), ownColour):
			b, n = append(b, f.colour...), len(ownColour)
		case unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
			b = append(b, text[:n]...)
		case f.escape:
			for _, unit := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
		default:
			b = utf8.AppendRune(b, utf8.RuneError)
		}
		text = text[n:]
	}
	return b
}

// oneLine returns text without line breaks and other unprintable characters. It has as many runes
// as before, and its colours.
func oneLine(text string) string {
	return string((&filter{colour: ownColour}).append(nil, []byte(text)))
}

// drawn returns a line of a screen that is not written through an output.
func drawn(line string) string {
	return string((&filter{colour: "\x1b["}).append(nil, []byte(line)))
}

// printf prints text. A string stays in its line, whatever it has. Further lines of an error are
// indented, so that none of them looks like a message of its own.
func printf(w io.Writer, format string, args ...any) (int, error) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case error:
			args[i] = strings.ReplaceAll(strings.TrimRight(arg.Error(), "\n"), "\n", "\n  ")
		case fmt.Stringer:
			args[i] = oneLine(arg.String())
		default:
			if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
				args[i] = oneLine(v.String())
			}
		}
	}
	return fmt.Fprintf(w, format, args...)
}
