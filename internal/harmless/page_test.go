//go:build linux && (amd64 || arm64)

package harmless

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/harm.md and the answers of docs/cases.md")

const harmPage = "../../docs/harm.md"

// written compares a part of docs/harm.md with want, or replaces it with -update. The part is between
// a line "<!-- NAME: …" and the next line "<!-- end of NAME -->".
func written(t *testing.T, name, want string) {
	t.Helper()
	text, err := os.ReadFile(harmPage)
	if err != nil {
		t.Fatal(err)
	}
	end := "<!-- end of " + name + " -->\n"
	before, rest, begun := strings.Cut(string(text), "<!-- "+name+": ")
	command, rest, commanded := strings.Cut(rest, "\n")
	got, after, ended := strings.Cut(rest, end)
	if !begun || !commanded || !ended {
		t.Fatalf("%s has no place for %s", harmPage, name)
	}
	if *update {
		text := before + "<!-- " + name + ": " + command + "\n" + want + end + after
		if err := os.WriteFile(harmPage, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("%s lacks the line\n%s", harmPage, line)
		}
	}
	if len(was) != len(is) {
		t.Errorf("%s has %d lines of %s, the test writes %d", harmPage, len(was), name, len(is))
	}
}
