package session

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// expand replaces %p, %h, %e, %t and %% in an output path. It keeps a percent sign before
// any other character, because that is a legal file name.
func expand(path string, start time.Time) string {
	if !strings.Contains(path, "%") {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+1 == len(path) {
			b.WriteByte(path[i])
			continue
		}
		i++
		switch path[i] {
		case 'p':
			b.WriteString(strconv.Itoa(os.Getpid()))
		case 'h':
			b.WriteString(fileName(hostname()))
		case 'e':
			b.WriteString(fileName(programName()))
		case 't':
			b.WriteString(start.Format("20060102T150405"))
		case '%':
			b.WriteByte('%')
		default:
			b.WriteByte('%')
			b.WriteByte(path[i])
		}
	}
	return b.String()
}

// fileName returns s as one path element: it replaces separators and NUL bytes by "_".
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == filepath.Separator || r == 0 {
			return '_'
		}
		return r
	}, s)
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil || h == "" {
		return "localhost"
	}
	return h
}

// programName returns the base name of the executable, without the suffix .exe.
func programName() string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}
