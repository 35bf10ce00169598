package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// A function's name says what it is, and its file's build tag says when it runs: TestPeer with peers,
// TestMeasure with measure, other tests with neither. See docs/architecture.md.
func TestKinds(t *testing.T) {
	buildLine, tags := regexp.MustCompile(`(?m)^//go:build .*$`), regexp.MustCompile(`\b(peers|measure)\b`)
	tests := regexp.MustCompile(`(?m)^func (Test(Peer|Measure)?\w*)\(t `)
	found := map[string]int{}
	err := filepath.WalkDir(root(t), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		tag := tags.FindString(buildLine.FindString(string(text)))
		found[tag]++
		for _, m := range tests.FindAllStringSubmatch(string(text), -1) {
			testenv.Same(t, file+": the build tag of "+m[1], strings.ToLower(m[2]), strings.TrimSuffix(tag, "s"))
		}
		return err
	})
	testenv.OK(t, err)
	if found[""] == 0 || found["peers"] == 0 || found["measure"] == 0 {
		t.Errorf("files by build tag: %v", found)
	}
}
