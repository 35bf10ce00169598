//go:build linux && (amd64 || arm64)

package harmless

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// systemCalls finds the system calls that code names by their numbers.
var systemCalls = regexp.MustCompile(`unix\.SYS_([A-Z0-9_]+)`)

// The page lists every system call that the native source makes.
func TestSystemCallsAreListed(t *testing.T) {
	page, err := os.ReadFile(harmPage)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../sampler/internal/native/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range systemCalls.FindAllStringSubmatch(string(text), -1) {
			found++
			if name := strings.ToLower(m[1]); !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("%s calls %s, which %s does not name", f, name, harmPage)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d system calls found in %d files", found, len(files))
	}
}
