package session

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// expand replaces %p, %h, %e, %t and %% in an output path. It keeps a percent sign before
// any other character, because that is a legal file name.
func expand(path string, start time.Time) string {
	before, rest, found := strings.Cut(path, "%")
	if !found || rest == "" {
		return path
	}
	with := ""
	switch rest[0] {
	case 'p':
		with = strconv.Itoa(os.Getpid())
	case 'h':
		with = fileName(hostname())
	case 'e':
		with = fileName(programName())
	case 't':
		with = start.Format("20060102T150405")
	case '%':
		with = "%"
	default:
		with = "%" + rest[:1]
	}
	return before + with + expand(rest[1:], start)
}

// whole returns the absolute path: the program may change its working directory during the session.
func whole(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != "" && !filepath.IsAbs(path) {
		return abs
	}
	return path
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
	h, _ := os.Hostname()
	return cmp.Or(h, "localhost")
}

// programName returns the base name of the executable, without the suffix .exe.
func programName() string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}
