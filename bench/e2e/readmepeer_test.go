//go:build peers

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// The README leads from nothing to a profile of the reader's program in at most six commands. The test does what it says, without
// the network: the clone is there.
func TestPeerReadmeProfile(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Profile your program\n")
	blocks := regexp.MustCompile("(?ms)^```(go|sh)\n(.*?)^```\n").FindAllStringSubmatch(section, 2)
	if len(blocks) < 2 || blocks[0][1] != "go" || blocks[1][1] != "sh" {
		t.Fatalf("README.md does not show a program and the commands: %q", blocks)
	}
	dir, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/yours\n\ngo 1.25.0\n",
		"main.go": "package main\n\nimport \"time\"\n\n" + blocks[0][2] + "\tyours()\n}\n\nfunc yours() { time.Sleep(300 * time.Millisecond) }\n",
	} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	env := []string{"GOBIN=" + bin, "PATH=" + bin + ":" + os.Getenv("PATH"), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-buildvcs=false"}
	var out string
	count := 1 // git clone
	for line := range strings.Lines(blocks[1][2]) {
		c, comment, _ := strings.Cut(line, " #")
		in := dir
		if strings.HasPrefix(comment, " in the clone") {
			in = root(t)
		}
		out = run(t, in, env, "sh", "-c", strings.ReplaceAll(c, "CLONE", root(t)))
		count++
	}
	if !strings.Contains(out, "[sleep] main.yours") {
		t.Errorf("the report does not show main.yours:\n%s", out)
	}
	if count > 6 {
		t.Errorf("it takes %d commands", count)
	}
}
