package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Golden compares a text with that of a file in testdata. With update it writes the file first.
func Golden(t testing.TB, name, got string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	a, b := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	line := func(list []string) string { return strings.Join(list[n:min(len(list), n+3)], "\n") }
	t.Errorf("not %s: line %d of it is\n%s\nwant\n%s", name, n+1, line(b), line(a))
}

// Marked compares the text between the marks <!-- name --> and <!-- /name --> of a page with want.
// With update it writes it.
func Marked(t testing.TB, page, name, want string, update bool) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), "<!-- "+name+" -->\n")
	got, after, closed := strings.Cut(rest, "<!-- /"+name+" -->\n")
	switch {
	case !ok || !closed:
		t.Fatalf("no table of %s in %s", name, page)
	case got == want:
	case !update:
		t.Fatalf("the table of %s in %s differs from the code; run go test -run %s with -update. It is to be\n%s", name, page, t.Name(), want)
	default:
		text := before + "<!-- " + name + " -->\n" + want + "<!-- /" + name + " -->\n" + after
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Files returns the files whose names have a pattern. Fewer than least fail the test.
func Files(t testing.TB, pattern string, least int) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) < least {
		t.Fatalf("%d files %s, want %d: %v", len(list), pattern, least, err)
	}
	return list
}
