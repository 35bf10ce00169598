package firefox

import (
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// An output writes JSON. Its error is kept until flush.
type output struct {
	w   io.Writer
	b   []byte
	err error
}

// raw writes text as it is.
func (o *output) raw(text ...string) {
	for _, t := range text {
		o.b = append(o.b, t...)
	}
	if len(o.b) > 64<<10 {
		o.write()
	}
}

func (o *output) write() {
	if o.err == nil {
		_, o.err = o.w.Write(o.b)
	}
	o.b = o.b[:0]
}

// value writes any value as JSON.
func (o *output) value(v any) {
	b, err := json.Marshal(v)
	if err != nil && o.err == nil {
		o.err = err
	}
	o.b = append(o.b, b...)
}

// open writes an object as JSON, but not its end, so that members can follow.
func (o *output) open(v any) {
	o.value(v)
	o.b = append(o.b[:len(o.b)-1], ',')
}

// column writes a member of an object, which is not the last one: an array of n values, each of
// which add appends.
func (o *output) column(name string, n int, add func(b []byte, i int) []byte) {
	o.raw(`"`, name, `":[`)
	for i := range n {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = add(o.b, i)
		if len(o.b) > 64<<10 {
			o.write()
		}
	}
	o.raw(`],`)
}

// same writes a column whose values are all the same.
func (o *output) same(name string, n int, value string) {
	o.column(name, n, func(b []byte, _ int) []byte { return append(b, value...) })
}

// ints writes a column of numbers. -1 is null.
func (o *output) ints(name string, list []int) {
	o.column(name, len(list), func(b []byte, i int) []byte {
		if list[i] < 0 {
			return append(b, "null"...)
		}
		return strconv.AppendInt(b, int64(list[i]), 10)
	})
}

// length writes the last member of a table, and closes it.
func (o *output) length(n int) { o.raw(`"length":`, strconv.Itoa(n), `}`) }

// appendMillis appends a time that is not negative in ms, exactly.
func appendMillis(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Millisecond), 10)
	rest := int(d % time.Millisecond)
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for digit := int(time.Millisecond) / 10; rest > 0; digit /= 10 {
		b = append(b, '0'+byte(rest/digit))
		rest %= digit
	}
	return b
}

// quoted returns a string as JSON.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // not for strings
		return `""`
	}
	return string(b)
}
