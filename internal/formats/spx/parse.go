package spx

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// parse reads an event's line in either notation.
func (r *Reader) parse(line []byte, e *Event) error {
	if bytes.IndexByte(line, ' ') < 0 && bytes.IndexByte(line, '|') >= 0 {
		return r.parseCompact(line, e)
	}
	fn, rest, _ := bytes.Cut(line, []byte{' '})
	flag, rest, _ := bytes.Cut(rest, []byte{' '})
	n, ok := parseIndex(fn)
	if !ok {
		return r.bad("event %.60q: no function", line)
	}
	if len(flag) != 1 || flag[0] != '0' && flag[0] != '1' {
		return r.bad("event %.60q: second field is not 1 or 0", line)
	}
	e.Function, e.Enter, e.Line = n, flag[0] == '1', 0
	if r.events == 0 {
		// SPX itself writes a zero as 0. Programs that write 0.0000 follow the
		// format's other description, in which times are microseconds.
		r.micros = bytes.HasPrefix(rest, []byte("0.0"))
	}
	for i := range e.Values {
		var field []byte
		field, rest, _ = bytes.Cut(rest, []byte{' '})
		if e.Values[i], ok = parseValue(field); !ok {
			return r.bad("event %.60q: %s is %.30q, not a number", line, r.meta.EnabledMetrics[i], field)
		}
	}
	if len(rest) > 0 {
		return r.bad("event %.60q: more values than the %d metrics", line, len(e.Values))
	}
	return nil
}

// parseCompact reads the notation of SPX 0.5.
func (r *Reader) parseCompact(line []byte, e *Event) error {
	r.compact = true
	rest, ok := bytes.CutPrefix(line, []byte{'-'})
	e.Enter, e.Line = !ok, 0
	if e.Enter {
		var site []byte
		site, rest, _ = bytes.Cut(rest, []byte{'|'})
		// The page shows an unknown call site as it is, so any is accepted.
		n, _ := strconv.ParseUint(string(site), 16, 32)
		e.Line = uint32(n)
	}
	fn, rest, more := bytes.Cut(rest, []byte{'|'})
	if back, ok := bytes.CutPrefix(fn, []byte{'r'}); ok {
		n, ok := parseIndex(back)
		if !ok || n < 1 || n > window || int64(n) > r.events {
			return r.bad("event %.60q: %.20q is none of the %d events before", line, fn, min(r.events, window))
		}
		e.Function = r.recent[(r.events-int64(n))%window]
	} else if e.Function, ok = parseIndex(fn); !ok {
		return r.bad("event %.60q: no function", line)
	}
	for i := range e.Values {
		if !more {
			return r.bad("event %.60q: fewer values than the %d metrics", line, len(e.Values))
		}
		var field []byte
		field, rest, more = bytes.Cut(rest, []byte{'|'})
		base := r.last[i]
		if abs, ok := bytes.CutPrefix(field, []byte{'a'}); ok {
			field, base = abs, 0
		} else if len(field) == 0 {
			e.Values[i] = base
			continue
		}
		v, ok := parseValue(field)
		if !ok {
			return r.bad("event %.60q: %s is %.30q, not a number", line, r.meta.EnabledMetrics[i], field)
		}
		e.Values[i] = base + v
	}
	if more {
		return r.bad("event %.60q: more values than the %d metrics", line, len(e.Values))
	}
	return nil
}

func parseIndex(b []byte) (uint32, bool) {
	if len(b) == 0 || len(b) > 10 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return uint32(n), n < math.MaxUint32
}

// parseValue reads a metric's value. SPX cuts values off after four decimals, so an
// integer that is not exact in floating point becomes -1591.9999; it is read as -1592.
func parseValue(b []byte) (float64, bool) {
	digits := b
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 0 && len(digits) <= 15 { // exact in a float64
		var n int64
		whole := true
		for _, c := range digits {
			if c < '0' || c > '9' {
				whole = false
				break
			}
			n = n*10 + int64(c-'0')
		}
		if whole && len(digits) < len(b) {
			return float64(-n), true
		} else if whole {
			return float64(n), true
		}
	}
	// strconv accepts more than a value may be: exponents, hex, inf and nan.
	if len(bytes.Trim(digits, "0123456789.")) > 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.Abs(v) > 1<<63 {
		return 0, false
	}
	if n := math.Round(v); math.Abs(v-n) < 0.00015 {
		v = n + 0 // never -0
	}
	return v, true
}

// function reads a line of the functions' section.
func (r *Reader) function(line string) Function {
	if r.meta.sampled() {
		line = unescape(line)
	}
	if !r.compact {
		return Function{Name: line}
	}
	// file:line:name, where a file's name may have colons and so may the function's.
	for start := 0; ; {
		i := strings.IndexByte(line[start:], ':')
		if i < 0 {
			return Function{Name: line}
		}
		start += i + 1
		number, name, ok := strings.Cut(line[start:], ":")
		if n, err := strconv.ParseUint(number, 10, 31); ok && err == nil {
			return Function{Name: name, File: line[:start-1], Line: int(n)}
		}
	}
}
