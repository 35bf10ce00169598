package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

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
			if !limit.MatchString(testFiles(t, command)) {
				t.Errorf("docs/measurements.md says %s of %q, and no such bound is in the file of %s", bound[0], row[1], command)
			}
		}
	}
	if checked < 12 {
		t.Errorf("checked only %d bounds", checked)
	}
}

// testFiles returns the text of the files with the tests that a go test command runs.
func testFiles(t *testing.T, command string) string {
	pattern := regexp.MustCompile(` -run (\w+)`).FindStringSubmatch(command)
	if pattern == nil {
		t.Fatalf("no test in %s", command)
	}
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
