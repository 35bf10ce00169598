package nytprof

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// maxString bounds a string or line in a file: real ones are names and source
// lines, and a hostile length must not cost memory.
const maxString = 16 << 20

// A String is a string chunk field: its bytes, and whether its writer marked
// them as UTF-8. The mark says little: perl keeps it by accident and may leave it
// out, so equal texts with different marks are the same name.
type String struct {
	Text string
	UTF8 bool
}

// decoder reads primitives. The first problem in a chunk stays in err, and all
// further reads return zero.
type decoder struct {
	src    io.Reader
	buf    []byte
	pos    int // of the next byte in buf
	end    int // of what is valid in buf
	base   int64
	srcErr error // what src ended with
	err    error

	names map[string]string // names seen, so that a repeated one costs no memory
}

const (
	bufferSize = 64 << 10
	slack      = 4       // bytes of the buffer after its end, which u32 may look at
	maxNames   = 1 << 14 // of names kept, each at most maxName long
	maxName    = 512
)

func newDecoder(src io.Reader) *decoder {
	return &decoder{src: src, buf: make([]byte, bufferSize+slack), names: make(map[string]string)}
}

// offset returns the position of the next byte in the chunk stream: that in the
// file as far as it is not deflated, plus inflated bytes.
func (d *decoder) offset() int64 { return d.base + int64(d.pos) }

// fill makes at least n bytes available, n <= bufferSize; it returns false
// where the source has no more.
func (d *decoder) fill(n int) bool {
	if d.end-d.pos >= n {
		return true
	}
	if d.pos > 0 {
		copy(d.buf, d.buf[d.pos:d.end])
		d.base += int64(d.pos)
		d.end -= d.pos
		d.pos = 0
	}
	for empty := 0; d.end < n && d.srcErr == nil; {
		m, err := d.src.Read(d.buf[d.end:bufferSize])
		d.end += m
		if m > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
		d.srcErr = err
	}
	return d.end >= n
}

// ErrTruncated says of a file that its end is missing, as when its program was
// killed: all chunks before were right.
var ErrTruncated = errors.New("truncated file")

// short notes that the source ended inside a chunk.
func (d *decoder) short() {
	if d.err != nil {
		return
	}
	d.err = fmt.Errorf("%w: inside", ErrTruncated)
	if d.srcErr != nil && d.srcErr != io.EOF && d.srcErr != io.ErrUnexpectedEOF {
		d.err = d.srcErr
	}
}

func (d *decoder) failf(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

// u32 reads an integer.
func (d *decoder) u32() uint32 {
	if d.end-d.pos < 5 && !d.wholeU32() {
		return 0
	}
	b := d.buf[d.pos : d.pos+5 : d.pos+5]
	switch c := b[0]; {
	case c < 0x80:
		d.pos++
		return uint32(c)
	case c < 0xC0:
		d.pos += 2
		return uint32(c&0x7F)<<8 | uint32(b[1])
	case c < 0xE0:
		d.pos += 3
		return uint32(c&0x1F)<<16 | uint32(b[1])<<8 | uint32(b[2])
	case c < 0xFF:
		d.pos += 4
		return uint32(c&0x0F)<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	default:
		d.pos += 5
		return binary.BigEndian.Uint32(b[1:])
	}
}

// wholeU32 is u32's check where the buffer, and maybe the file, ends soon.
func (d *decoder) wholeU32() bool {
	n := 1
	if d.err == nil && d.fill(1) {
		switch c := d.buf[d.pos]; {
		case c < 0x80:
		case c < 0xC0:
			n = 2
		case c < 0xE0:
			n = 3
		case c < 0xFF:
			n = 4
		default:
			n = 5
		}
	}
	if d.err != nil || !d.fill(n) {
		d.short()
		return false
	}
	return true
}

// nv reads a double.
func (d *decoder) nv() float64 {
	if d.err != nil || !d.fill(8) {
		d.short()
		return 0
	}
	v := binary.LittleEndian.Uint64(d.buf[d.pos:])
	d.pos += 8
	return math.Float64frombits(v)
}

// str reads a string; names says that it may well come again.
func (d *decoder) str(name bool) String {
	if d.err != nil || !d.fill(1) {
		d.short()
		return String{}
	}
	tag := d.buf[d.pos]
	if tag != '\'' && tag != '"' {
		d.failf("a string begins with the byte %#02x, not with ' or \", in", tag)
		return String{}
	}
	d.pos++
	n := d.u32()
	if n > maxString {
		d.failf("a string of %d bytes (at most %d make sense) in", n, maxString)
	}
	if d.err != nil {
		return String{}
	}
	return String{d.text(int(n), name), tag == '"'}
}

// text reads n bytes. It allocates no more than it finds.
func (d *decoder) text(n int, name bool) string {
	if n > bufferSize {
		var b []byte
		for len(b) < n {
			if !d.fill(1) {
				d.short()
				return ""
			}
			m := min(n-len(b), d.end-d.pos)
			b = append(b, d.buf[d.pos:d.pos+m]...)
			d.pos += m
		}
		return string(b)
	}
	if !d.fill(n) {
		d.short()
		return ""
	}
	b := d.buf[d.pos : d.pos+n]
	d.pos += n
	if !name || n > maxName {
		return string(b)
	}
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if len(d.names) == maxNames {
		clear(d.names)
	}
	s := string(b)
	d.names[s] = s
	return s
}

// line reads up to and with the next newline and returns what is before it.
func (d *decoder) line() string {
	if d.err != nil {
		return ""
	}
	var long []byte
	for seen := 0; ; {
		if i := bytes.IndexByte(d.buf[d.pos+seen:d.end], '\n'); i >= 0 {
			n := seen + i
			s := string(append(long, d.buf[d.pos:d.pos+n]...))
			d.pos += n + 1
			return s
		}
		seen = d.end - d.pos
		if seen == bufferSize {
			long = append(long, d.buf[d.pos:d.end]...)
			d.pos, seen = d.end, 0
			if len(long) > maxString {
				d.failf("a line of more than %d bytes in", maxString)
				return ""
			}
		}
		if !d.fill(seen + 1) {
			d.short()
			return ""
		}
	}
}

// errMalformed stands for a line without "=", which the real reader skips.
var errMalformed = errors.New("no = in")

func (d *decoder) keyValue() (key, value string) {
	key, value, ok := strings.Cut(d.line(), "=")
	if !ok && d.err == nil {
		d.err = errMalformed
	}
	return key, value
}

func appendU32(b []byte, v uint32) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v < 0x4000:
		return append(b, byte(v>>8)|0x80, byte(v))
	case v < 0x200000:
		return append(b, byte(v>>16)|0xC0, byte(v>>8), byte(v))
	case v < 0x10000000:
		return append(b, byte(v>>24)|0xE0, byte(v>>16), byte(v>>8), byte(v))
	}
	return append(b, 0xFF, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func appendNV(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

func appendStr(b []byte, s String) []byte {
	tag := byte('\'')
	if s.UTF8 {
		tag = '"'
	}
	return append(appendU32(append(b, tag), uint32(len(s.Text))), s.Text...)
}
