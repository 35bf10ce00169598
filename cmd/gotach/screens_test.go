package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/testenv"
)

// The first screen of a report is what a terminal of 80 columns and 40 lines shows of it without scrolling. It names what was
// planted in the recorded sessions: see internal/analyze/testdata/README.md.
func TestFirstScreens(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for name, planted := range map[string]string{
		"sleeps":          `1\. lock.* main\.\(\*store\)\.sleepy .*the holder slept in main\.\(\*store\)\.sleepy locks\.go:\d+`,
		"computes":        `1\. lock.* main\.\(\*store\)\.compute .*the holder computed in main\.spin main\.go:\d+`,
		"refresher":       `1\. lock.*the holder slept in main\.\(\*store\)\.load locks\.go:\d+`,
		"two-of-one-type": `lock.*the holder slept in main\.\(\*store\)\.sleepy locks\.go:\d+`,
		"slow-reader":     `1\. lock.*RWMutex.*the holder slept in main\.\(\*store\)\.load locks\.go:\d+`,
		"after":           `sleep.*main\.plantedRetry others\.go:\d+.*main\.plantedWork others\.go:\d+`,
		"requests":        `P50 P90 P99 REQUESTS .* HTTP handlers \(ServeHTTP\) .*in the slowest 1 %: \[sleep\] main\.longPath others\.go:\d+`,
		"leaks":           `1\. leak.*main\S*eakyReply others\.go:\d+`,
	} {
		path := "../../internal/analyze/testdata/sessions/" + name
		out, _, _ := ran("report", path+".tach")
		lines := strings.SplitAfter(out, "\n")
		screen := strings.Join(lines[:min(40, len(lines))], "")
		testenv.Golden(t, path+".screen", screen, os.Getenv("UPDATE_SCRIPTS") != "")
		for _, l := range lines {
			if l = strings.TrimSuffix(l, "\n"); utf8.RuneCountInString(l) > 80 && !strings.HasPrefix(l, "  gotach ") {
				t.Errorf("a line of %s does not fit: %q", name, l)
			}
		}
		if !regexp.MustCompile(planted).MatchString(strings.Join(strings.Fields(screen), " ")) {
			t.Errorf("the first screen of %s does not have %s", name, planted)
		}
	}
}
