package e2e

import (
	"flag"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "write the goldens in testdata")

const architecture = "docs/architecture.md"

// docs returns the names of all documents.
func docs(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	list := testenv.Must(os.ReadDir(filepath.Join(root(t), "docs")))
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
	b := testenv.Must(os.ReadFile(filepath.Join(root(t), name)))
	return string(b)
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
	testenv.SameList(t, "docs/recording.md has", names(table), code)
	testenv.SameList(t, "doc.go has", names(doc), code)
}

// Every link and anchor of the documents leads somewhere, and README leads to every page.
func TestDocLinks(t *testing.T) {
	var links, anchors int
	linked := map[string]bool{"README.md": true}
	for _, page := range docs(t) {
		// Code in backticks may look like a link.
		text := regexp.MustCompile("`[^`\n]*`").ReplaceAllString(prose(read(t, page)), "code")
		for _, m := range regexp.MustCompile(`\]\(([^)\s]*)\)`).FindAllStringSubmatch(text, -1) {
			links++
			u, err := url.Parse(m[1])
			switch {
			case err != nil || u.Scheme != "" && (u.Scheme != "https" || u.Host == ""):
				t.Errorf("%s links to %s", page, m[1])
				continue
			case u.Scheme != "":
				continue
			}
			target := page
			if u.Path != "" {
				target = path.Join(path.Dir(page), u.Path)
			}
			if page == "README.md" {
				linked[target] = true
			}
			if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if u.Fragment != "" {
				anchors++
				testenv.FailIf(t, !headings(read(t, target))[u.Fragment], "%s links to %s, and there is no such heading", page, m[1])
			}
		}
	}
	testenv.FailIf(t, links < 50 || anchors < 5, "found only %d links, %d of them to headings", links, anchors)
	for _, page := range docs(t) {
		testenv.FailIf(t, !linked[page], "README.md does not lead to %s", page)
	}
}

// headings returns the anchors that GitHub gives to a page's headings.
func headings(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(page), -1) {
		anchors[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return anchors
}

// The bounds in docs/measurements.md are those of the tests that its commands run: each number with its unit stands on a line of the
// test's file that says how much there may be at most.
func TestDocBounds(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/measurements.md"), "\n## Bounds\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var checked int
	command := ""
	for _, row := range regexp.MustCompile(`(?m)^\| (.*) \| (.*) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		if strings.Contains(row[3], "go test") { // otherwise it is the command of the row before
			command = row[3]
		}
		for _, bound := range regexp.MustCompile(`([\d.]+) (%|ms|points|MB)`).FindAllStringSubmatch(row[2], -1) {
			checked++
			number := regexp.QuoteMeta(bound[1])
			if bound[2] == "MB" { // also in bytes
				whole, part, _ := strings.Cut(bound[1], ".")
				number += "|" + whole + "_" + (part + "000")[:3] + "_000"
			}
			limit := regexp.MustCompile(`(?m)^[^/]*(AtMost\(|figure\(|bound|most).*\b(` + number + `)\b`)
			testenv.FailIf(t, !limit.MatchString(testFiles(t, command)), "docs/measurements.md says %s of %q, and no such bound is in the file of %s", bound[0], row[1], command)
		}
	}
	testenv.FailIf(t, checked < 12, "checked only %d bounds", checked)
}

// testFiles returns the text of the files with the tests that a go test command runs.
func testFiles(t *testing.T, command string) string {
	pattern := regexp.MustCompile(` -run (\w+)`).FindStringSubmatch(command)
	testenv.StopIf(t, pattern == nil, "no test in %s", command)
	var text strings.Builder
	for _, folder := range regexp.MustCompile(` (\./[\w/]+)`).FindAllStringSubmatch(command, -1) {
		files := testenv.Must(filepath.Glob(filepath.Join(root(t), folder[1], "*_test.go")))
		for _, name := range files {
			b := testenv.Must(os.ReadFile(name))
			if regexp.MustCompile(`(?m)^func Test\w*` + pattern[1]).Match(b) {
				text.Write(b)
			}
		}
	}
	return text.String()
}
