package spx

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// SPX's pages take names for windows-1252 and put them into HTML as they are,
// so names are written in ASCII with entities for everything else.

// objectKeys are names that every JavaScript object already has. SPX's pages look
// function names up in objects: a function named constructor ends the page with an
// error.
var objectKeys = []string{
	"constructor", "__proto__", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable",
	"toLocaleString", "toString", "valueOf",
	"__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__",
	eventsHeading, functionsHeading, // these would change the section
}

// escape returns a name as a report has it, on one line.
func escape(name string) string {
	if name == "" {
		return "(no name)"
	}
	if slices.Contains(objectKeys, name) {
		return fmt.Sprintf("&#%d;%s", name[0], name[1:])
	}
	var b strings.Builder
	for _, r := range name {
		switch {
		case r < ' ' || r == 0x7f:
			b.WriteByte(' ')
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '"' || r == '\'' || r > 0x7f:
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unescape undoes escape, except for control characters.
func unescape(name string) string { return html.UnescapeString(name) }
