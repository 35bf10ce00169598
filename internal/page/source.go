package page

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/profile"
)

const (
	aroundLine   = 2       // lines before and after a line that are shown too
	maxLineBytes = 160     // of a line of source that are shown
	maxSource    = 400_000 // bytes of all lines of a page
	maxFileBytes = 4 << 20
)

// sourceNames are the extensions of files that are source. A profile of somebody else must not bring other files of this machine
// into a page.
var sourceNames = map[string]bool{
	".go": true, ".s": true, ".c": true, ".cc": true, ".cpp": true, ".h": true, ".py": true, ".pl": true, ".pm": true, ".php": true,
}

// sources returns the piece with the lines of source files that are in stacks, and those around them. Files that are not
// there, or are not as they were, are left out. The program's own come first.
func (b *builder) sources() (Piece, error) {
	lines := map[string][]int{}
	var own, others []string
	for _, f := range b.frames.List {
		if f.File == "" || f.Line <= 0 {
			continue
		}
		if lines[f.File] == nil {
			if profile.IsStandard(&f) {
				others = append(others, f.File)
			} else {
				own = append(own, f.File)
			}
		}
		lines[f.File] = append(lines[f.File], int(f.Line))
	}
	slices.Sort(own)
	slices.Sort(others)
	out, left, omitted := map[string]map[string]string{}, min(maxSource, int(b.o.MaxSize/20)), 0
	for _, file := range append(own, others...) {
		if b.o.NoSource {
			break
		}
		if !sourceNames[path.Ext(strings.ReplaceAll(file, `\`, "/"))] {
			continue
		}
		text, err := b.source(file)
		if err != nil || len(text) > maxFileBytes {
			continue
		}
		list := bytes.Split(text, []byte("\n"))
		if slices.Max(lines[file]) > len(list) {
			continue // it was changed since
		}
		part, size := map[string]string{}, 0
		for _, line := range lines[file] {
			for n := max(1, line-aroundLine); n <= min(len(list), line+aroundLine); n++ {
				key := strconv.Itoa(n)
				if _, ok := part[key]; ok {
					continue
				}
				s := strings.TrimRight(string(list[n-1]), "\r")
				if len(s) > maxLineBytes {
					s = s[:maxLineBytes] + "…"
				}
				part[key] = strings.ToValidUTF8(s, "")
				size += len(s) + 8
			}
		}
		if size > left {
			omitted++
			continue
		}
		left -= size
		out[file] = part
	}
	if omitted > 0 {
		b.omitted = append(b.omitted, fmt.Sprintf("lines of %d source files are left out", omitted))
	}
	return newPiece("source", map[string]any{"files": out}, nil)
}
