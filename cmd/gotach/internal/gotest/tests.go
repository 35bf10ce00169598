package gotest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A process is what a test binary wrote about itself.
type process struct {
	path       string // of its files, without extension
	importPath string // "": unknown
	errors     []string
	spans      map[uint64][]span // by goroutine, in order of time
	tests      int
}

// A span is the time of a test, benchmark, fuzz target or example on a goroutine, in µs since 1970.
type span struct {
	name       string
	begin, end uint64
}

// readProcess reads the file that package hook describes. The last line of a killed process may be cut off.
func readProcess(path string) (*process, error) {
	f, err := os.Open(path + ".tests")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &process{path: path, spans: map[uint64][]span{}}
	names := map[string]bool{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var text string
		var goroutine, at uint64
		line := in.Text()
		switch {
		case scan(line, "package %q", &text):
			p.importPath = text
		case scan(line, "error %q", &text):
			p.errors = append(p.errors, text)
		case scan(line, "begin %d %d %q", &goroutine, &at, &text):
			p.spans[goroutine] = append(p.spans[goroutine], span{text, at, at})
			names[text] = true
		case scan(line, "end %d %d", &goroutine, &at):
			if list := p.spans[goroutine]; len(list) > 0 {
				list[len(list)-1].end = max(at, list[len(list)-1].begin)
			}
		}
	}
	p.tests = len(names)
	return p, in.Err()
}

func scan(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
