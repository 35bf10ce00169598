package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// The first screen of a report is what a terminal of 80 columns and 40 lines shows of it without scrolling. It names what was
// planted in the recorded sessions: see internal/analyze/testdata/README.md.
func TestFirstScreens(t *testing.T) {
	for name, planted := range map[string]string{
		"sleeps":          `Mutex in main\.\(\*store\)\.sleepy  sync\.Mutex\n +[0-9.]+ % held in \[sleep\] main\.\(\*store\)\.sleepy  locks\.go:\d+$`,
		"computes":        `Mutex in main\.\(\*store\)\.compute  sync\.Mutex\n +[0-9.]+ % held in \[running\] main\.spin  main\.go:\d+\n +holds are too short`,
		"refresher":       `sync\.Mutex\n +[0-9.]+ % held in \[sleep\] main\.\(\*store\)\.load  locks\.go:\d+$`,
		"two-of-one-type": `(sync\.Mutex\n +[0-9.]+ % held in \[sleep\] main\.\(\*store\)\.sleepy  locks\.go:\d+\n(.*\n)?.*){2}`,
		"slow-reader":     `sync\.RWMutex\n +[0-9.]+ % held in \[sleep\] main\.\(\*store\)\.load  locks\.go:\d+$`,
		"after":           `\[sleep\] main\.plantedRetry  others\.go:\d+$(?s:.*)main\.plantedWork  others\.go:\d+`,
		"requests":        `^ +P50 +P90 +P99  REQUESTS\n.* HTTP handlers \(ServeHTTP\)\n(?s:.*)in the slowest 1 %: \[sleep\] main\.longPath  others\.go:\d+$`,
		"leaks":           `LEAK\? \[chan receive\] main\S*eakyReply  others\.go:\d+$`,
	} {
		path := "../../internal/analyze/testdata/sessions/" + name
		cmd := testCommand(t, "gotach", "report", path+".tach")
		cmd.Env = append(os.Environ(), "COLUMNS=80", "TZ=UTC")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(out), "\n")
		screen := strings.Join(lines[:min(40, len(lines))], "")
		testenv.Golden(t, path+".screen", screen, os.Getenv("UPDATE_SCRIPTS") != "")
		if !regexp.MustCompile("(?m)" + planted).MatchString(screen) {
			t.Errorf("the first screen of %s does not have %s", name, planted)
		}
	}
}
