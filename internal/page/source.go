package page

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

const (
	aroundLine   = 2       // lines before and after a line that are shown too
	maxLineBytes = 160     // of a line of source that are shown
	maxSource    = 400_000 // bytes of all lines of a page
)

// sources returns the piece with the lines of source files that are in stacks, and those around
// them. Files that are not there, may not be read, or are not as they were, are left out. The
// program's own come first.
func (b *builder) sources() (Piece, error) {
	in := map[string][]*tachyon.Frame{}
	var own, others []string
	for i := range b.frames.List {
		f := &b.frames.List[i]
		if f.File == "" || f.Line <= 0 {
			continue
		}
		if in[f.File] == nil {
			if profile.IsStandard(f) {
				others = append(others, f.File)
			} else {
				own = append(own, f.File)
			}
		}
		in[f.File] = append(in[f.File], f)
	}
	slices.Sort(own)
	slices.Sort(others)
	out, left, omitted := map[string]map[string]string{}, min(maxSource, int(b.o.MaxSize/20)), 0
	for _, file := range append(own, others...) {
		if b.o.Source == nil {
			break
		}
		text := b.o.Source(file)
		if text == nil {
			continue
		}
		part, size := linesOf(text, in[file])
		if size > left {
			omitted++
			continue
		}
		left -= size
		if len(part) > 0 {
			out[file] = part
		}
	}
	if omitted > 0 {
		b.omitted = append(b.omitted, fmt.Sprintf("lines of %d source files are left out", omitted))
	}
	return newPiece("source", map[string]any{"files": out}, nil)
}

// linesOf returns the lines of a file that are in frames, and those around them, by their numbers;
// and their size. There are none if the file was changed since.
func linesOf(text *source.File, frames []*tachyon.Frame) (lines map[string]string, size int) {
	list := bytes.Split(text.Text, []byte("\n"))
	if slices.ContainsFunc(frames, func(f *tachyon.Frame) bool { return int(f.Line) > len(list) }) {
		return nil, 0
	}
	lines = map[string]string{}
	for _, f := range frames {
		line := int(f.Line)
		if !text.Shows(f.Func, line) {
			continue
		}
		for n := max(1, line-aroundLine); n <= min(len(list), line+aroundLine); n++ {
			key := strconv.Itoa(n)
			if _, ok := lines[key]; ok {
				continue
			}
			s := strings.TrimRight(string(list[n-1]), "\r")
			if len(s) > maxLineBytes {
				s = s[:maxLineBytes] + "…"
			}
			lines[key] = strings.ToValidUTF8(s, "")
			size += len(s) + 8
		}
	}
	return lines, size
}
