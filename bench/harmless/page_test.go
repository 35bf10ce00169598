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
	before, got, after := part(t, name)
	if *update {
		if err := os.WriteFile(harmPage, []byte(before+want+after), 0o666); err != nil {
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

// part returns a part of docs/harm.md, and the text before and after it. The lines that mark the part's
// begin and end belong to before and after.
func part(t *testing.T, name string) (before, got, after string) {
	t.Helper()
	text, err := os.ReadFile(harmPage)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+": ", "<!-- end of "+name+" -->\n"
	before, rest, begun := strings.Cut(string(text), begin)
	command, rest, commanded := strings.Cut(rest, "\n")
	got, after, ended := strings.Cut(rest, end)
	if !begun || !commanded || !ended {
		t.Fatalf("%s has no place for %s", harmPage, name)
	}
	return before + begin + command + "\n", got, end + after
}
