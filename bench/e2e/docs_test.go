package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "write the tables of the documents and testdata/imports.txt")

const architecture = "docs/architecture.md"

// docs returns the names of all documents.
func docs(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	list, err := os.ReadDir(filepath.Join(root(t), "docs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".md") {
			pages = append(pages, "docs/"+e.Name())
		}
	}
	return pages
}

// prose returns a page without its blocks of code.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```\n").ReplaceAllString(page, "")
}

// read returns a file of this repository.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The table of rooms in docs/architecture.md is that of TestRooms. With -update the test writes it.
func TestArchitectureRooms(t *testing.T) {
	names := func(list string) string {
		if list == "" {
			return "–"
		}
		return "`" + strings.Join(strings.Fields(list), "` `") + "`"
	}
	var table strings.Builder
	table.WriteString("| room | what it is | may import of ours | and of others' |\n|---|---|---|---|\n")
	module := "."
	for _, r := range rooms {
		if m := moduleOf(r.folder); m != module {
			module = m
			fmt.Fprintf(&table, "| **module `%s`** | | | |\n", m)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r.folder, r.is, names(r.imports), names(r.foreign))
	}
	testenv.Marked(t, filepath.Join(root(t), architecture), "rooms", table.String(), *update)
}

// docs/recording.md, package documentation and code have the same environment variables.
func TestDocEnvironment(t *testing.T) {
	names := func(text string) []string {
		found := regexp.MustCompile(`PROFILE_[A-Z]+`).FindAllString(text, -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	_, table, _ := strings.Cut(read(t, "docs/recording.md"), "\n## Environment\n")
	_, doc, _ := strings.Cut(read(t, "doc.go"), "# Environment")
	code := names(read(t, "env.go"))
	if got := names(table); !slices.Equal(got, code) {
		t.Errorf("docs/recording.md has %v, env.go %v", got, code)
	}
	if got := names(doc); !slices.Equal(got, code) {
		t.Errorf("doc.go has %v, env.go %v", got, code)
	}
}
