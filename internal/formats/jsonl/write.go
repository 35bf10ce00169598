// Package jsonl reads and writes samples as JSON lines, one object a sample:
//
//	{"thread_id":1,"interpreter_id":0,"timestamp":1000001000,"status":3,"frames":[["work.go","main.work",41],["main.go","main.main",12]]}
//
// Timestamps are µs on the clock of the file, status is the set of bits of a
// Tachyon file, a frame is file, function and line, the innermost first. The
// samples come in the order of the file: those of one thread in time order. A
// sample that stands for no time also has "marker":true, before frames; see
// [tachyon.Session.Marker].
//
// If the file has gotach's metadata, objects with these come first. The value of their
// first key, "gotach", is their kind. The other keys are the fields of the types of
// package tachyon:
//
//	{"gotach":"file","start_us":1000000000,"interval_us":1000}
//	{"gotach":"session","program":"work", …}                       one tachyon.Session
//	{"gotach":"object","n":1,"kind":"sync.Mutex","symbol":"main.mu", …}  a tachyon.Object
//	{"gotach":"goroutine","id":7,"created_by":"main.main", …}      a tachyon.Goroutine
//	{"gotach":"pcs","text_start":4198400, …}                       one tachyon.LeafPCs
//
// The line of the kind "file" is the first one. A goroutine may come in several lines: each has a
// part of what is known about it, which [tachyon.Goroutine.Add] puts together. A reader of these
// lines takes the others at any place, and keeps those of unknown kinds.
package jsonl

import (
	"bufio"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Write writes all metadata and samples of a source with Options.Markers and Objects. Those before
// an error are written too.
func Write(w io.Writer, src *stream.Source) error {
	b := bufio.NewWriterSize(w, 64<<10)
	var texts []string // of the frames, made when first needed
	c, err := src.Copy()
	if err != nil {
		return err
	}
	line, err := appendMetadata(nil, c, func(lines []byte) error {
		_, err := b.Write(lines)
		return err
	})
	if err == nil {
		_, err = b.Write(line)
	}
	if err != nil {
		b.Flush()
		return err
	}
	for s, err := range src.Samples() {
		if err != nil {
			b.Flush()
			return err
		}
		line = strconv.AppendUint(append(line[:0], `{"thread_id":`...), s.Goroutine, 10)
		line = strconv.AppendUint(append(line, `,"interpreter_id":`...), uint64(s.Interpreter), 10)
		line = strconv.AppendUint(append(line, `,"timestamp":`...), s.Time, 10)
		line = strconv.AppendUint(append(line, `,"status":`...), uint64(s.Status), 10)
		if s.Marker {
			line = append(line, `,"marker":true`...)
		}
		line = append(line, `,"frames":[`...)
		frames, stacks := src.Frames(), src.Stacks()
		texts = append(texts, make([]string, len(frames)-len(texts))...)
		for n := s.Stack; n != 0; n = stacks[n].Caller {
			if n != s.Stack {
				line = append(line, ',')
			}
			id := stacks[n].Frame
			if texts[id] == "" {
				texts[id] = frameText(&frames[id])
			}
			line = append(line, texts[id]...)
		}
		line = append(line, "]}\n"...)
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	return b.Flush()
}

func frameText(f *tachyon.Frame) string {
	b := appendString([]byte{'['}, f.File)
	b = appendString(append(b, ','), f.Func)
	b = strconv.AppendInt(append(b, ','), int64(f.Line), 10)
	return string(append(b, ']'))
}

// appendString appends s as a JSON string, escaping no more than JSON demands;
// what is not UTF-8 becomes U+FFFD. encoding/json escapes more.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
		s = s[n:]
	}
	return append(b, '"')
}
