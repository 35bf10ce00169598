// Lines prints how many lines of code of this project a program links, without blank lines and
// comments:
//
//	go run ./internal/testenv/lines . ./cmd/gotach
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const project = "github.com/gotach/profiler"

func main() {
	flag.Parse()
	for _, pattern := range flag.Args() {
		list, err := linked(pattern)
		if err != nil {
			fmt.Fprintln(os.Stderr, "lines:", err)
			os.Exit(1)
		}
		sum := 0
		for _, p := range list {
			fmt.Printf("%6d  %s\n", p.lines, p.ImportPath)
			sum += p.lines
		}
		fmt.Printf("%6d  lines in %d packages are linked by %s\n", sum, len(list), pattern)
	}
}

type pkg struct {
	ImportPath, Dir string
	GoFiles, SFiles []string
	lines           int
}

// linked returns the packages of the project that those of a pattern link on this system, the
// largest first.
func linked(pattern string) (list []pkg, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,SFiles", pattern)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.ImportPath != project && !strings.HasPrefix(p.ImportPath, project+"/") {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.SFiles) {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			p.lines += count(src)
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b pkg) int { return cmp.Or(b.lines-a.lines, strings.Compare(a.ImportPath, b.ImportPath)) })
	return list, nil
}

// count returns the number of lines of a source file, of Go or assembly, that have more than
// comments.
func count(src []byte) int {
	code := map[int]bool{}
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0) // what is no Go is a token too
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(code)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the end of a line
		}
		for line := range strings.Count(text, "\n") + 1 {
			code[file.Line(pos)+line] = true
		}
	}
}
