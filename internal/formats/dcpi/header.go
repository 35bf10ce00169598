package dcpi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Line is one line of a header as in the file, without its newline: a word, white
// space, the rest.
type Line string

// NewLine returns the line as this package writes it, with a tab.
func NewLine(word, value string) Line { return Line(word + "\t" + value) }

// Word returns the line's first word, the name of its value.
func (l Line) Word() string {
	if i := strings.IndexAny(string(l), " \t"); i >= 0 {
		return string(l[:i])
	}
	return string(l)
}

// Value returns what follows the word and the white space after it.
func (l Line) Value() string {
	return strings.TrimLeft(string(l[len(l.Word()):]), " \t")
}

// check returns an error if the line cannot be in a header.
func (l Line) check() error {
	switch {
	case strings.Contains(string(l), "\n"):
		return fmt.Errorf("header line %.40q has a line feed", string(l))
	case l.Word() == "" || l.Value() == "":
		return fmt.Errorf(`header line %.40q is not "word value"`, string(l))
	case isTerminator(string(l)):
		return errors.New(`header line "samples" would end the header`)
	}
	return nil
}

// isTerminator reports whether a line ends the header. A line "samples value" does
// not: it is a line with an unknown word.
func isTerminator(s string) bool {
	rest, ok := strings.CutPrefix(s, "samples")
	return ok && strings.Trim(rest, " \t") == ""
}

// Header is the ASCII part of a profile.
type Header struct {
	Lines []Line // in order, without the terminating "samples" line

	// Terminator is the line that ended the header when it was read: "samples" and
	// padding. If it is empty, Write pads so that the binary part starts at a
	// multiple of 4.
	Terminator string
}

// syntax has the rules for the value of each known word. Trailing white space is
// part of a value only if the format's grammar calls it rest_of_line (field rest).
var syntax = map[string]struct {
	lax   bool // may be missing under Options.Lax
	rest  bool
	valid func(string) bool
	want  string
}{
	"version":  {lax: true, valid: isVersion, want: "pdb-<major>.<minor>"},
	"image":    {valid: isHex, want: "hex digits"},
	"epoch":    {valid: isEpoch, want: "10, 12 or 14 digits"},
	"platform": {rest: true, valid: notEmpty},
	"event":    {rest: true, valid: notEmpty},
	"period":   {valid: isNumber, want: "a decimal number below 2^64"},
	"tstart":   {lax: true, valid: isHex64, want: "a hex number below 2^64 without 0x"},
	"tsize":    {valid: isNumber, want: "a decimal number below 2^64"},
	"cpuspeed": {valid: isNumber, want: "a decimal number below 2^64"},
	"cpuamask": {valid: isHex, want: "hex digits"},
	"cpuimplv": {valid: isNumber, want: "a decimal number below 2^64"},
	"cpucount": {valid: isNumber, want: "a decimal number below 2^64"},
	"path":     {rest: true, valid: notEmpty},
	"x-unit":   {valid: isUnit, want: "a decimal number from 1 to 2^32-1"},
}

// required are the words that a header must have, in the order in which errors name
// them.
var required = []string{"version", "image", "epoch", "platform", "event", "period", "tstart", "tsize", "cpuspeed"}

func notEmpty(s string) bool { return s != "" }

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }

func isHex64(s string) bool {
	_, err := strconv.ParseUint(s, 16, 64)
	return isHex(s) && err == nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return isDigits(s) && err == nil
}

func isUnit(s string) bool {
	n, err := strconv.ParseUint(s, 10, 32)
	return isDigits(s) && err == nil && n > 0
}

func isEpoch(s string) bool {
	return isDigits(s) && (len(s) == 10 || len(s) == 12 || len(s) == 14)
}

func isVersion(s string) bool {
	n, ok := strings.CutPrefix(s, "pdb-")
	major, minor, dot := strings.Cut(n, ".")
	return ok && dot && isDigits(major) && isDigits(minor)
}

// check applies the rules of the header as a whole. An error comes with the index of
// its line; the terminator's index is len(h.Lines).
func (h *Header) check(o Options) (line int, err error) {
	seen := map[string]int{}
	for i, l := range h.Lines {
		if err := l.check(); err != nil {
			return i, err
		}
		word, v := l.Word(), h.value(l)
		seen[word]++
		s, known := syntax[word]
		switch {
		case known && !s.valid(v):
			return i, fmt.Errorf("%s is %.40q, not %s", word, v, s.want)
		case seen[word] > 1 && slices.Contains(required, word):
			return i, fmt.Errorf("header has a second %s line, want exactly one", word)
		case word == "version" && majorVersion(v) != "":
			return i, fmt.Errorf("version is %s: the binary part of major version %s is not documented, only that of 0", v, majorVersion(v))
		}
	}
	end := len(h.Lines)
	for _, word := range required {
		if seen[word] == 0 && !(o.Lax && syntax[word].lax) {
			return end, fmt.Errorf("header has no %s line", word)
		}
	}
	if h.Terminator != "" && !isTerminator(h.Terminator) {
		return end, fmt.Errorf(`header ends with %.40q, not "samples"`, h.Terminator)
	}
	return 0, nil
}

// majorVersion returns the major version without leading zeros; "" is 0.
func majorVersion(v string) string {
	major, _, _ := strings.Cut(strings.TrimPrefix(v, "pdb-"), ".")
	return strings.TrimLeft(major, "0")
}

func (h *Header) value(l Line) string {
	if s, ok := syntax[l.Word()]; ok && !s.rest {
		return strings.TrimRight(l.Value(), " \t")
	}
	return l.Value()
}

// Value returns the value of the first line with the word.
func (h *Header) Value(word string) (value string, ok bool) {
	for _, l := range h.Lines {
		if l.Word() == word {
			return h.value(l), true
		}
	}
	return "", false
}

// number returns a numeric value, or 0 where the line is missing.
func (h *Header) number(word string, base int) uint64 {
	v, _ := h.Value(word)
	n, _ := strconv.ParseUint(v, base, 64)
	return n
}

// TextStart returns the address of the image's text section.
func (h *Header) TextStart() uint64 { return h.number("tstart", 16) }

// TextSize returns the size of the image's text section in bytes.
func (h *Header) TextSize() uint64 { return h.number("tsize", 10) }

// Period returns the number of events between two samples. With the events cpu_ns and
// wall_ns these are nanoseconds.
func (h *Header) Period() uint64 { return h.number("period", 10) }

// CPUSpeed returns the clock rate of the profiled machine in MHz, 0 if unknown.
func (h *Header) CPUSpeed() uint64 { return h.number("cpuspeed", 10) }

// Unit returns how many bytes lie between the addresses of two counts.
func (h *Header) Unit() uint64 {
	if n := h.number("x-unit", 10); n > 0 {
		return n
	}
	return 1
}

// Epoch returns the time at which the epoch of the profile began, in UTC. Years
// of two digits are those from 1970 to 2069.
func (h *Header) Epoch() (time.Time, error) {
	v, _ := h.Value("epoch")
	layout := map[int]string{10: "0601021504", 12: "060102150405", 14: "20060102150405"}[len(v)]
	t, err := time.Parse(layout, v)
	if err != nil || layout == "" {
		return time.Time{}, fmt.Errorf("epoch %q is not a time", v)
	}
	return t, nil
}

// ImageName returns the last element of the executable's path, or the image's
// identifier where the header has no path.
func (h *Header) ImageName() string {
	if p, ok := h.Value("path"); ok {
		if name := path.Base(strings.TrimRight(p, "/")); name != "." && name != "/" {
			return name
		}
	}
	v, _ := h.Value("image")
	return v
}

// append adds the header's bytes, the terminating line included, to b.
func (h *Header) append(b []byte) []byte {
	start := len(b)
	for _, l := range h.Lines {
		b = append(append(b, l...), '\n')
	}
	if h.Terminator != "" {
		return append(append(b, h.Terminator...), '\n')
	}
	b = append(b, "samples"...)
	for (len(b)-start+1)%4 != 0 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}

// maxHeader bounds how far the end of a header is searched for, in bytes, so that a
// file of another format is not read into memory as a whole.
const maxHeader = 1 << 20

// readHeader reads up to and including the terminating line and returns the
// number of bytes that takes.
func readHeader(r *bufio.Reader) (h Header, size int64, err error) {
	for {
		line, err := readLine(r, maxHeader-int(size))
		if err != nil {
			return h, size + int64(len(line)), err
		}
		start := size
		size += int64(len(line)) + 1
		if isTerminator(line) {
			h.Terminator = line
			return h, size, nil
		}
		if err := Line(line).check(); err != nil {
			return h, start, err
		}
		h.Lines = append(h.Lines, Line(line))
	}
}

// readLine reads a line without its newline.
func readLine(r *bufio.Reader, limit int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return string(line), fmt.Errorf(`no "samples" line within the first %d bytes`, maxHeader)
		case err == io.EOF:
			return string(line), errors.New(`no "samples" line`)
		case err == nil:
			return string(line[:len(line)-1]), nil
		case err != bufio.ErrBufferFull:
			return string(line), err
		}
	}
}
