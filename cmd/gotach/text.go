package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/gotach/profiler/internal/profile"
)

// minName is the smallest width of a name in columns. If there is less room, the place is
// left out.
const minName = 24

// baseName returns the last element of a path of any system. It keeps the prefix of Perl's
// string evals, which have the form "(eval 1)[/path/x.pl:5]".
func baseName(path string) string {
	eval := ""
	if i := strings.LastIndexByte(path, '['); i >= 0 && strings.HasPrefix(path, "(") {
		eval, path = path[:i+1], path[i+1:]
	}
	return eval + path[strings.LastIndexAny(path, `/\`)+1:]
}

// fileLine returns a place in the source, such as main.go:41.
func fileLine(file string, line int) string { return fmt.Sprintf("%s:%d", baseName(file), line) }

// shorten makes a name fit into room columns. It removes the leading elements of the import
// path first, then the middle.
func shorten(name string, room int) string {
	if utf8.RuneCountInString(name) <= room {
		return name
	}
	prefix, name := cutPrefix(name)
	room -= utf8.RuneCountInString(prefix)
	end, columns := pathEnd(name), utf8.RuneCountInString(name)
	for i := strings.IndexByte(name[:end], '/'); i >= 0; i = strings.IndexByte(name[:end], '/') {
		columns -= utf8.RuneCountInString(name[:i+1])
		name, end = name[i+1:], end-i-1
		if columns+2 <= room {
			return prefix + "…/" + name
		}
	}
	r := []rune(name)
	if len(r) <= room {
		return prefix + name
	}
	if room < 3 {
		return prefix + "…"
	}
	left := (room - 1) / 3
	if prefix != "" && room < minName {
		left = 0 // the end says most
	}
	return prefix + string(r[:left]) + "…" + string(r[len(r)-(room-1-left):])
}

// cut makes a text that is no name fit into room columns. It removes the end.
func cut(text string, room int) string {
	if lipgloss.Width(text) <= room {
		return text
	}
	r := []rune(text)
	for r = r[:min(len(r), room)]; len(r) > 0 && lipgloss.Width(string(r)) >= room; {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// cutPrefix cuts from a name what stands before the function: a goroutine, or a wait.
func cutPrefix(name string) (prefix, function string) {
	if i := strings.LastIndexByte(name, ' '); i >= 0 && strings.HasPrefix(name, "goroutine ") {
		return name[:i+1], name[i+1:]
	}
	if i := strings.Index(name, "] "); i >= 0 && name[0] == '[' {
		return name[:i+2], name[i+2:]
	}
	return "", name
}

// pathEnd returns the index before which slashes belong to a function's import path. Those in type
// arguments do not.
func pathEnd(function string) int {
	if end := strings.IndexAny(function, "[("); end >= 0 {
		return end
	}
	return len(function)
}

// least returns the number of columns of a name without the leading elements of the import path.
func least(name string) int {
	prefix, name := cutPrefix(name)
	name = name[strings.LastIndexByte(name[:pathEnd(name)], '/')+1:]
	return utf8.RuneCountInString(prefix + name)
}

// minPlace is the number of columns to which a place in the source is shortened for the name before
// it.
const minPlace = 14

// shortenPlace makes a place such as cache_test.go:41 fit beside a name into room columns. It
// removes the end of the file's name, never the line.
func shortenPlace(at, name string, room int) string {
	room = max(minPlace, room-2-least(name))
	line := strings.LastIndexByte(at, ':')
	if utf8.RuneCountInString(at) <= room || line < 0 {
		return at
	}
	file := []rune(at[:line])
	left := max(1, room-1-len(at[line:]))
	if left+1 >= len(file) {
		return at
	}
	return string(file[:left]) + "…" + at[line:]
}

// plain is a word that a shell takes as it is.
var plain = regexp.MustCompile(`^[\pL\pN_./:@%+,=][\pL\pN_./:@%+,=-]*$`)

// quoted returns a word of a command that the user may type.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// typed returns files as they can be typed.
func typed(paths []string) string {
	words := make([]string, len(paths))
	for i, path := range paths {
		words[i] = quoted(path)
	}
	files := strings.Join(words, " ")
	if len(files) > 40 && len(paths) > 1 {
		files = words[0] + " …"
	}
	return files
}

// wrap breaks a text into lines between words. All lines but the first are indented.
func wrap(text string, width, indent int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// printedName matches what names of functions have and no regular expression means: a pointer
// receiver as in (*T).f, and the type arguments of f[...].
var printedName = regexp.MustCompile(`\(\*[^()|]*\)|(?:^|[^\\])\[\.\.\.\]`)

// pattern compiles a regular expression. Names of functions in it, as gotach prints them, match
// themselves.
func pattern(text string) (*regexp.Regexp, error) {
	return regexp.Compile(printedName.ReplaceAllStringFunc(text, func(name string) string {
		before := len(strings.TrimSuffix(name, "[...]")) % len(name) // what is before [...] stays
		return name[:before] + regexp.QuoteMeta(name[before:])
	}))
}

// powers are the prefixes for powers of 1000.
const powers = "kMGTP"

// duration returns a time as text with three digits and a unit.
func duration(d time.Duration) string { return profile.DurationText(d) }

// digits returns a number below 1000 with three digits.
func digits(f float64) string { return profile.Digits(f) }

// percent returns d as a percentage of all.
func percent(d, all time.Duration) string {
	if all <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(d)/float64(all))
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
