package main

import (
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// An error in a file for one system, or for its tests only, is found there only.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		tests  bool
		system string
		n      int
		want   string
	}{
		{false, "windows/amd64", 1, ""},
		{true, "windows/amd64", 2, "broken_windows_test.go:3:19: cannot use 1"}, // without its tests, and with them
		{false, "darwin/arm64", 1, "broken_darwin.go:5:14: undefined: math.Rot13"},
		{false, "linux/386", 1, "broken.go:8:18: cannot use most + 1"},
	} {
		n, err := check(c.tests, c.system, "./testdata/broken")
		testenv.Fails(t, c.system, err, c.want)
		testenv.Same(t, c.system, n, c.n)
	}
}
