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
	b := bufio.NewWriter(w)
	if err := f.encodeHead(b); err != nil {
		return err
	}
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
	e := encoder{w: b}
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
	return b.Flush() // a bufio.Writer keeps the first error
}

func (f *file) encodeHead(b *bufio.Writer) error {
	for _, c := range f.Comments {
		if strings.Contains(c, "\n") {
			return fmt.Errorf("pynytprof: the comment %.50q is not one line", c)
		}
	}
	line := func(tag byte, key, value string) error {
		if strings.ContainsAny(key, "=\n") || strings.Contains(value, "\n") || len(key)+len(value) > maxText/2 {
			return fmt.Errorf("pynytprof: %.50q=%.50q does not fit in a line", key, value)
		}
		_, err := fmt.Fprintf(b, "%c%s=%s\n", tag, key, value)
		return err
	}
	fmt.Fprintf(b, "%s\n", version(f))
	for _, c := range f.Comments {
		fmt.Fprintf(b, "#%s\n", c)
	}
	for _, a := range f.Attributes {
		if err := line(':', a.Key, a.Value); err != nil {
			return err
		}
	}
	for _, o := range f.Options {
		if err := line('!', o.Key, o.Value); err != nil {
			return err
		}
	}
	return b.WriteByte('\n')
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
