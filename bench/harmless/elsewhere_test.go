//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// shownCases are cases that other tests of this package and those of sampler/internal/native cover. These tests check the results.
var shownCases = []struct {
	what, result string
	tests        []string // "TestX" or "TestX/subtest"
}{
	{
		"a C handler for SIGURG that calls Go's, installed before the session",
		"same results; profile by the portable source, which leaves signals alone",
		[]string{"TestPeerChainedHandler/before"},
	}, {
		"a C handler for SIGURG that calls the profiler's, installed during the session",
		"same results, and the handler finds all registers unchanged; the session ends early with an error that gives the reason",
		[]string{"TestPeerChainedHandler/during", "TestPeerChainedHandlerArm64/during", "TestPrograms/late handler"},
	}, {
		"a C handler for SIGURG that still calls the profiler's after Stop",
		"same results, and the handler finds all registers unchanged",
		[]string{"TestPeerChainedHandler/after", "TestPeerChainedHandlerArm64/after"},
	}, {
		"a crash reporter: one C handler for SIGSEGV and SIGURG, installed before the session",
		"same results; profile by the portable source",
		[]string{"TestPeerChainedHandler/reporter before"},
	}, {
		"the crash reporter, installed during the session",
		"same results; the session ends early with an error that gives the reason",
		[]string{"TestPeerChainedHandler/reporter during"},
	}, {
		"two Go libraries in one C process, with a session in one of them",
		"same results of both libraries",
		[]string{"TestPeerTwoLibraries/first", "TestPeerTwoLibraries/second"},
	}, {
		"two Go libraries in one C process, with a session in each, nested or overlapping",
		"same results of both libraries",
		[]string{"TestPeerTwoLibraries/both", "TestPeerTwoLibraries/nested", "TestPeerTwoLibraries/crossed"},
	}, {
		"a second Go library that is loaded during a session in the first",
		"same results of both libraries",
		[]string{"TestPeerTwoLibraries/late"},
	}, {
		"a plugin (package `plugin`), loaded before the session or during it",
		"the plugin's code is sampled like the program's, with inlined calls",
		[]string{"TestPeerPlugin/early", "TestPeerPlugin/late"},
	}, {
		"`secret.Do` (`GOEXPERIMENT=runtimesecret`, Go 1.26)",
		"afterwards the secret is not in the program's memory, as without a session",
		[]string{"TestPeerSecrets/plain", "TestPeerSecrets/sampled"},
	}, {
		"threads of C that call Go, some with all signals blocked",
		"same results",
		[]string{"TestPeerCgo"},
	}, {
		"Delve attached: two stops at a breakpoint, and detached",
		"same output and exit code; profile whole",
		[]string{"TestPeerDelve"},
	}, {
		"builds with `-asan`, `-msan`, `-race`, coverage, `-gcflags='all=-N -l'`, and some of these together",
		"same results; with `-race` and atomic coverage counters of the profiler, profile by the portable source",
		[]string{"TestPeerBuilds"},
	}, {
		"`RLIMIT_NPROC` leaves no room for threads",
		"no session, and an error that names RLIMIT_NPROC",
		[]string{"TestPrograms/max processes"},
	},
}

// TestHarmShown compares the table of these cases with docs/harm.md, or writes it with -update. It checks
// that the tests exist.
func TestHarmShown(t *testing.T) {
	files, err := filepath.Glob("../../sampler/internal/native/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	files = append(files, "delve_test.go")
	var code strings.Builder
	for _, name := range files {
		text := testenv.Must(os.ReadFile(name))
		code.Write(text)
	}
	var b strings.Builder
	b.WriteString("\n| case | with a session | tests |\n|---|---|---|\n")
	for _, c := range shownCases {
		for _, name := range c.tests {
			// The names of subtests are strings in the code of the test.
			test, sub, _ := strings.Cut(name, "/")
			_, body, ok := strings.Cut(code.String(), "\nfunc "+test+"(")
			if body, _, _ = strings.Cut(body, "\n}\n"); !ok || sub != "" && !strings.Contains(body, strconv.Quote(sub)) {
				t.Errorf("there is no %s", name)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", c.what, c.result, strings.Join(c.tests, "`, `"))
	}
	b.WriteByte('\n')
	written(t, "shown elsewhere", b.String())
}
