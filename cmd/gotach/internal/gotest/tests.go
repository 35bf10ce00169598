package gotest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A process is the process of one test binary, by what it wrote about itself.
type process struct {
	path       string // of its profile and of the file that readProcess reads, without extension
	importPath string // of the package under test; "": unknown
	errors     []string
}

// readProcess reads the file PATH.tests. Package hook (internal/gotest/hook) writes and describes
// it. The last line of a killed process may be cut off.
func readProcess(path string) (*process, error) {
	f, err := os.Open(path + ".tests")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &process{path: path}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var text string
		line := in.Text()
		switch {
		case scan(line, "package %q", &text):
			p.importPath = text
		case scan(line, "error %q", &text):
			p.errors = append(p.errors, text)
		}
	}
	return p, in.Err()
}

// scan reads a line of a format. It reports whether the line is of it.
func scan(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
