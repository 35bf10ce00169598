package analyzetest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A Cause is a line of testdata/causes/causes.txt: a program, and what is planted in it.
type Cause struct {
	Name             string
	Kinds, Functions []string // of the finding; none: the program is healthy
}

// Causes returns them. root is the root of the repository.
func Causes(t testing.TB, root string) (list []Cause) {
	t.Helper()
	text, err := os.ReadFile(root + "/testdata/causes/causes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "#" {
			c := Cause{Name: f[0], Functions: f[2:]}
			if f[1] != "healthy" {
				c.Kinds = strings.Split(f[1], ",")
			}
			list = append(list, c)
		}
	}
	return list
}

// Healthy reports whether nothing is planted.
func (c *Cause) Healthy() bool { return c.Kinds == nil }

// Is reports whether a finding is what is planted.
func (c *Cause) Is(kind, function string) bool {
	return slices.Contains(c.Kinds, kind) && (function == "" || slices.Contains(c.Functions, function))
}
