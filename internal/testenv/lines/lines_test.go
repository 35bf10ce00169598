package main

import (
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func TestCount(t *testing.T) {
	for src, want := range map[string]int{
		"":                                      0,
		"// a\n\n/* b\n c */\npackage x // d\n": 1,
		"package x\n\nvar s = `a\n\n// b`\n":    4,
		"package x\n\nfunc f() {\n\n\treturn\n}\n":                                  4,
		"#include \"a.h\"\n\n// b\nTEXT ·f(SB), 4, $0\n\tMOVQ $1, AX // c\n\tRET\n": 4,
	} {
		testenv.Same(t, src, count([]byte(src)), want)
	}
}

// The library links package native, and not what only tests import.
func TestLinked(t *testing.T) {
	lines := map[string]int{}
	for _, p := range testenv.Must(linked(project)) {
		lines[p.ImportPath] = p.lines
	}
	if lines[project] < 300 || lines[project+"/internal/session"] < 300 || lines[project+"/internal/testenv"] > 0 {
		t.Errorf("%v", lines)
	}
}
