package perlnytprof

import "bytes"

// maxSource bounds the size of all source files in a profile.
const maxSource = 64 << 20

// sourceLines returns the lines of a source file as SRC_LINEs hold them.
func sourceLines(src []byte) map[uint32]string {
	lines := make(map[uint32]string, bytes.Count(src, []byte("\n"))+1)
	for n := uint32(1); len(src) > 0 && n <= maxLine; n++ {
		end := bytes.IndexByte(src, '\n') + 1
		if end == 0 {
			end = len(src)
		}
		lines[n] = string(src[:end])
		src = src[end:]
	}
	return lines
}

// blankLines replaces the text of a file that is left out. Without a text, Perl's
// tools look for the file themselves and warn.
func blankLines(name string, n uint32) map[uint32]string {
	lines := map[uint32]string{1: "// " + name + " was left out when this profile was written.\n"}
	for line := uint32(2); line <= n; line++ {
		lines[line] = "\n"
	}
	return lines
}
