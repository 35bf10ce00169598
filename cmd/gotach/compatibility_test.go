package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/testenv"
)

// testdata/compatibility has files of earlier versions, which testdata/compatibility/record wrote. The command reads each, and its JSON
// has all that it had when the version was new, and perhaps more. With -update the test writes the JSON of files that have none.
func TestCompatibility(t *testing.T) {
	versions := testenv.Files(t, "../../testdata/compatibility/v*", 1)
	for _, dir := range versions {
		files, _ := filepath.Glob(filepath.Join(dir, "*.*"))
		read := 0
		for _, path := range files {
			name := filepath.Base(path)
			if strings.HasSuffix(name, ".tach") || strings.HasSuffix(name, ".bin") {
				read++
				t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) { reads(t, path) })
			}
		}
		testenv.FailIf(t, read < 7, "%s has %d files", dir, read)
	}
}

// reads checks what the command says of one file.
func reads(t *testing.T, path string) {
	file := filepath.Join(t.TempDir(), filepath.Base(path))
	must(os.WriteFile(file, testenv.Must(os.ReadFile(path)), 0o600))
	if packed, err := os.Open(path + ".journal.gz"); err == nil {
		defer packed.Close()
		must(os.WriteFile(file+".journal", testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(packed)))), 0o600))
	}
	got := map[string]any{}
	for _, args := range []string{"info", "report --idle --by function", "report --idle --by label:worker"} {
		var v any
		text, errs, code := ran(append(strings.Fields(args), "--json", file)...)
		testenv.Same(t, errs+args+": exit code", code, exitOK)
		testenv.OK(t, json.Unmarshal([]byte(text), &v))
		got[args] = v
	}
	golden := path + ".json"
	if _, err := os.Stat(golden); err != nil && *update {
		must(os.WriteFile(golden, append(testenv.Must(json.MarshalIndent(got, "", " ")), '\n'), 0o644))
	}
	var want any
	must(json.Unmarshal(testenv.Must(os.ReadFile(golden)), &want))
	for _, lack := range lacks(got, want, "") {
		t.Error(lack)
	}
}

// lacks says what of want got does not have. Got may have more keys.
func lacks(got, want any, at string) (list []string) {
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for k, w := range want {
			g, ok := got[k]
			if !ok {
				list = append(list, fmt.Sprintf("%s.%s is missing", at, k))
				continue
			}
			list = append(list, lacks(g, w, at+"."+k)...)
		}
	case []any:
		got, _ := got.([]any)
		if len(got) != len(want) {
			return []string{fmt.Sprintf("%s has %d elements, want %d", at, len(got), len(want))}
		}
		for i, w := range want {
			list = append(list, lacks(got[i], w, fmt.Sprintf("%s[%d]", at, i))...)
		}
	default:
		if got != want {
			list = append(list, fmt.Sprintf("%s is %v, want %v", at, got, want))
		}
	}
	return list
}

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
			l = strings.TrimSuffix(l, "\n")
			testenv.FailIf(t, utf8.RuneCountInString(l) > 80 && !strings.HasPrefix(l, "  gotach "), "a line of %s does not fit: %q", name, l)
		}
		testenv.FailIf(t, !regexp.MustCompile(planted).MatchString(strings.Join(strings.Fields(screen), " ")), "the first screen of %s does not have %s", name, planted)
	}
}
