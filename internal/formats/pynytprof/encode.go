package pynytprof

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// Encode writes a file.
func (f *file) Encode(w io.Writer) error {
	subs := 0
	for _, s := range f.Subs {
		if strings.IndexByte(s.Name, 0) >= 0 || len(s.Name) >= maxText {
			return fmt.Errorf("pynytprof: the name %.50q cannot be written", s.Name)
		}
		subs += 8 + len(s.Name) + 1
	}
	if int64(max(subs, len(f.Lines)*lineSize, len(f.Calls)*callSize)) > math.MaxUint32 {
		return fmt.Errorf("pynytprof: %d lines, %d subs and %d calls do not fit in the format", len(f.Lines), len(f.Subs), len(f.Calls))
	}
	b := bufio.NewWriter(w) // keeps the first error
	e := encoder{w: b}
	e.bytes(f.head(nil))
	e.record('P', processSize)
	e.u64(f.Process.Start)
	e.u32(f.Process.PID, f.Process.Parent)
	e.record('S', len(f.Lines)*lineSize)
	for _, l := range f.Lines {
		e.u32(l.FID, l.Line, l.Calls)
		e.u64(l.Incl, l.Excl)
	}
	e.record('D', subs)
	for _, s := range f.Subs {
		e.u32(s.SID, s.Flags)
		e.bytes(append([]byte(s.Name), 0))
	}
	e.record('C', len(f.Calls)*callSize)
	for _, c := range f.Calls {
		e.u32(c.Caller, c.Called, c.Calls)
		e.u64(c.Ticks, c.SubTicks)
	}
	e.record('E', 0)
	return b.Flush()
}

// head appends the lines of text. Their texts are single lines.
func (f *file) head(b []byte) []byte {
	b = fmt.Appendln(b, version(f))
	for _, c := range f.Comments {
		b = fmt.Appendf(b, "#%s\n", c)
	}
	for _, a := range f.Attributes {
		b = fmt.Appendf(b, ":%s=%s\n", a.Key, a.Value)
	}
	for _, o := range f.Options {
		b = fmt.Appendf(b, "!%s=%s\n", o.Key, o.Value)
	}
	return append(b, '\n')
}

// encoder writes little-endian numbers.
type encoder struct{ w *bufio.Writer }

func (e encoder) bytes(b []byte) { _, _ = e.w.Write(b) }

func (e encoder) record(token byte, length int) {
	e.bytes([]byte{token})
	e.u32(uint32(length))
}

func (e encoder) u32(vs ...uint32) {
	for _, v := range vs {
		e.bytes(binary.LittleEndian.AppendUint32(e.w.AvailableBuffer(), v))
	}
}

func (e encoder) u64(vs ...uint64) {
	for _, v := range vs {
		e.bytes(binary.LittleEndian.AppendUint64(e.w.AvailableBuffer(), v))
	}
}
