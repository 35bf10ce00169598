package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

const readme = "../../README.md"

// shown is output of the command in the README, between markers that do not show:
//
//	<!-- gotach formats -->
//	```text
//	NAME  READ ...
//	```
//	<!-- /gotach -->
var shown = regexp.MustCompile("(?s)(<!-- gotach ([^\n]*?) -->\n```text\n)(.*?)(```\n<!-- /gotach -->)")

// What the README shows of the command is what the command prints; the formats
// are among it. UPDATE_README=1 writes it anew.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if !strings.Contains(text, "<!-- gotach formats -->") {
		t.Error("the README does not show the formats: it lacks the lines <!-- gotach formats --> and <!-- /gotach -->")
	}
	if n := strings.Count(text, "<!-- gotach "); n != len(shown.FindAllString(text, -1)) {
		t.Errorf("there are %d markers in the README, not all well formed", n)
	}
	fresh := shown.ReplaceAllStringFunc(text, func(block string) string {
		m := shown.FindStringSubmatch(block)
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(m[2]), strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Errorf("gotach %s: exit %d: %s", m[2], code, stderr.String())
			return block
		}
		return m[1] + stdout.String() + m[4]
	})
	if fresh == text {
		return
	}
	if os.Getenv("UPDATE_README") != "" {
		if err := os.WriteFile(readme, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for i, line := range strings.Split(text, "\n") {
		if now := strings.Split(fresh, "\n"); i >= len(now) || now[i] != line {
			t.Fatalf("README.md:%d is not what gotach prints (UPDATE_README=1 go test ./cmd/gotach):\n%s", i+1, line)
		}
	}
}
