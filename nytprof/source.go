package nytprof

import (
	"bytes"
	"go/build"
	"os"
	"path/filepath"
	"strings"
)

// maxSource bounds the size of a source file in a profile.
const maxSource = 8 << 20

// readSource finds a source file by the name that the compiler recorded: a path,
// or with -trimpath one below GOROOT/src or the module cache.
func readSource(name string) []byte {
	paths := []string{name}
	if !filepath.IsAbs(name) {
		paths = []string{
			filepath.Join(build.Default.GOROOT, "src", name),
			filepath.Join(moduleCache(), escapeModule(name)),
		}
	}
	for _, p := range paths {
		if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() || info.Size() > maxSource {
			continue
		}
		if b, err := os.ReadFile(p); err == nil {
			return b
		}
	}
	return nil
}

func moduleCache() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	return filepath.Join(filepath.SplitList(build.Default.GOPATH + string(filepath.ListSeparator))[0], "pkg", "mod")
}

// escapeModule writes capitals as the module cache does: !a for A.
func escapeModule(path string) string {
	var b strings.Builder
	for _, r := range path {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('!')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

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

// blankLines replaces the text of a file that was not found. Without a text, Perl's
// tools look for the file themselves and warn.
func blankLines(name string, n uint32) map[uint32]string {
	lines := map[uint32]string{1: "// " + name + " was not found when this profile was written.\n"}
	for line := uint32(2); line <= n; line++ {
		lines[line] = "\n"
	}
	return lines
}
