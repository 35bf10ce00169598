package analyze

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// gotach builds the command once, in a directory that TestMain removes, and returns its path.
var gotach = sync.OnceValues(func() (string, error) { return testenv.BuildGotach(built) })

var built string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if built, err = os.MkdirTemp("", "gotach-analyze-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(built)
		return m.Run()
	}())
}

// The first screen of a report is what a terminal of this size shows of it without scrolling.
const screenColumns, screenLines = 80, 40

// onFirstScreen checks that the first screen of gotach report has what the patterns match. With -short it does not
// build the command and checks nothing.
func onFirstScreen(t *testing.T, path string, patterns ...string) {
	t.Helper()
	if testing.Short() {
		return
	}
	command, err := gotach()
	if err != nil {
		t.Fatal(err)
	}
	report := exec.Command(command, "report", path)
	report.Env = append(os.Environ(), fmt.Sprintf("COLUMNS=%d", screenColumns))
	out, err := report.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	screen := strings.Join(lines[:min(screenLines, len(lines))], "")
	t.Logf("\n%s", screen)
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(screen) {
			t.Errorf("the first screen does not have %s", p)
		}
	}
}
