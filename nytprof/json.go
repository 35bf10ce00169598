package nytprof

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// DumpJSON writes a chunk as one line of JSON: an array of its tag and its
// fields, in the order in which a callback of ReadStream gets them.
//
// A string is a JSON string if it is ASCII and was marked as bytes, {"hex":
// "6e61ef"} if it is bytes beyond ASCII, {"utf8": "naïve"} if it was marked as
// UTF-8 (and is), all in ASCII. Comments end in \n. Times have 17 digits, and so
// read back as the same double.
func DumpJSON(w io.Writer, c Chunk) error {
	var b []byte
	if buffered, ok := w.(*bufio.Writer); ok {
		b = buffered.AvailableBuffer()
	}
	_, err := w.Write(appendJSON(b, c))
	return err
}

func appendJSON(b []byte, c Chunk) []byte {
	a := jsonArray{b: append(b, '[')}
	a.ascii(c.Tag())
	c.args(&a)
	return append(a.b, "]\n"...)
}

func (c *Version) args(a *jsonArray)   { a.u(c.Major, c.Minor) }
func (c *Comment) args(a *jsonArray)   { a.bytes(c.Text + "\n") }
func (c *Attribute) args(a *jsonArray) { a.bytes(c.Key); a.bytes(c.Value) }
func (c *Option) args(a *jsonArray)    { a.bytes(c.Key); a.bytes(c.Value) }
func (*StartDeflate) args(*jsonArray)  {}
func (c *PIDStart) args(a *jsonArray)  { a.u(c.PID, c.Parent); a.nv(c.Time) }
func (c *PIDEnd) args(a *jsonArray)    { a.u(c.PID); a.nv(c.Time) }
func (c *TimeLine) args(a *jsonArray)  { a.i(c.Ticks); a.u(c.FID, c.Line) }
func (c *TimeBlock) args(a *jsonArray) { a.i(c.Ticks); a.u(c.FID, c.Line, c.BlockLine, c.SubLine) }
func (*Discount) args(*jsonArray)      {}
func (c *SubEntry) args(a *jsonArray)  { a.u(c.CallerFID, c.CallerLine) }
func (c *SubReturn) args(a *jsonArray) { a.u(c.Depth); a.nv(c.Incl, c.Excl); a.str(c.Sub) }
func (c *SrcLine) args(a *jsonArray)   { a.u(c.FID, c.Line); a.str(c.Text) }
func (c *SubInfo) args(a *jsonArray)   { a.u(c.FID, c.First, c.Last); a.str(c.Name) }
func (c *SubCallers) args(a *jsonArray) {
	a.u(c.FID, c.Line, c.Count)
	a.nv(c.Incl, c.Excl, c.Reci)
	a.u(c.Depth)
	a.str(c.Called)
	a.str(c.Caller)
}

func (c *NewFID) args(a *jsonArray) {
	a.u(c.FID, c.EvalFID, c.EvalLine, uint32(c.Flags), c.Size, c.Mtime)
	a.str(c.Name)
}

// jsonArray is an array being written.
type jsonArray struct{ b []byte }

func (a *jsonArray) comma() {
	if a.b[len(a.b)-1] != '[' {
		a.b = append(a.b, ',')
	}
}

func (a *jsonArray) u(vs ...uint32) {
	for _, v := range vs {
		a.comma()
		a.b = strconv.AppendUint(a.b, uint64(v), 10)
	}
}

func (a *jsonArray) i(v int32) {
	a.comma()
	a.b = strconv.AppendInt(a.b, int64(v), 10)
}

func (a *jsonArray) nv(vs ...float64) {
	for _, v := range vs {
		a.comma()
		switch { // as perl prints them; JSON has no numbers for these
		case math.IsNaN(v):
			a.b = append(a.b, `"NaN"`...)
		case math.IsInf(v, 1):
			a.b = append(a.b, `"Inf"`...)
		case math.IsInf(v, -1):
			a.b = append(a.b, `"-Inf"`...)
		default:
			a.b = strconv.AppendFloat(a.b, v, 'g', 17, 64)
		}
	}
}

func (a *jsonArray) str(s String) {
	if !s.UTF8 || !utf8.ValidString(s.Text) {
		a.bytes(s.Text)
		return
	}
	a.comma()
	a.b = append(a.b, `{"utf8":`...)
	a.quote(s.Text)
	a.b = append(a.b, '}')
}

func (a *jsonArray) bytes(s string) {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			a.comma()
			a.b = append(a.b, `{"hex":"`...)
			for j := 0; j < len(s); j++ {
				a.hex(s[j])
			}
			a.b = append(a.b, `"}`...)
			return
		}
	}
	a.ascii(s)
}

func (a *jsonArray) ascii(s string) {
	a.comma()
	a.quote(s)
}

func (a *jsonArray) hex(c byte) {
	const digits = "0123456789abcdef"
	a.b = append(a.b, digits[c>>4], digits[c&15])
}

// quote appends valid UTF-8 as an ASCII JSON string.
func (a *jsonArray) quote(s string) {
	a.b = append(a.b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			a.b = append(a.b, '\\', byte(r))
		case r == '\n':
			a.b = append(a.b, `\n`...)
		case r == '\t':
			a.b = append(a.b, `\t`...)
		case ' ' <= r && r < 0x7F:
			a.b = append(a.b, byte(r))
		case r < 0x10000:
			a.unit(r)
		default:
			r -= 0x10000
			a.unit(0xD800 + r>>10)
			a.unit(0xDC00 + r&0x3FF)
		}
	}
	a.b = append(a.b, '"')
}

func (a *jsonArray) unit(r rune) {
	a.b = append(a.b, `\u`...)
	a.hex(byte(r >> 8))
	a.hex(byte(r))
}
