//go:build peers

package gotest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// checkout copies a module to a new directory: the module cache is read-only.
func checkout(t *testing.T, module string) string {
	t.Helper()
	var got struct{ Dir, Error string }
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err := errors.Join(json.Unmarshal(out, &got), err); err != nil {
		testenv.Skip(t, "no module proxy: "+got.Error)
	}
	dir := filepath.Join(t.TempDir(), "module")
	testenv.OK(t, os.CopyFS(dir, os.DirFS(got.Dir)))
	// go test says what it downloads.
	testenv.Run(t, exec.Command("go", "list", "-C="+dir, "-deps", "-test", "./..."))
	return dir
}

var verdict = regexp.MustCompile(`^(=== RUN|\s*--- |ok  |FAIL|PASS|\?|panic:)`)

// verdicts returns go test's own lines. What tests log has addresses, names of temporary files and stack traces.
func verdicts(out string) string {
	var b strings.Builder
	for l := range strings.Lines(out) {
		if verdict.MatchString(l) {
			b.WriteString(l)
		}
	}
	return b.String()
}

// Modules of other people: go test prints the same, ends with the same code, and the profile has tests that ran.
func TestPeerModules(t *testing.T) {
	for i, m := range []struct{ module, args string }{
		{"golang.org/x/sync@v0.24.0", "./errgroup"},
		{"golang.org/x/sync@v0.24.0", "-race ./..."},
		{"golang.org/x/sync@v0.24.0", "-run=Group ./..."},
		{"go.uber.org/goleak@v1.3.0", "./..."}, // looks for leaks, has a TestMain
		{"go.uber.org/zap@v1.28.0", "-short ./..."},
		{"github.com/prometheus/common@v0.67.1", "-short ./..."},
	} {
		t.Run(strings.ReplaceAll(m.module+" "+m.args, "/", "_"), func(t *testing.T) {
			if i > 0 {
				testenv.Night(t, "a small module is enough")
			}
			compare(t, checkout(t, m.module), verdicts, strings.Fields(m.args)...)
		})
	}
}
