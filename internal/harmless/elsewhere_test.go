//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// shownCases are cases that tests in sampler/internal/native cover. These tests check the results.
var shownCases = []struct {
	what, result string
	tests        []string // "TestX" or "TestX/subtest"
}{
	{
		"a C handler for SIGURG that calls Go's, installed before the session",
		"same results; profile by the portable source, which leaves signals alone",
		[]string{"TestChainedHandler/before"},
	}, {
		"a C handler for SIGURG that calls the profiler's, installed during the session",
		"same results, and the handler finds all registers unchanged; the session ends early with an error that gives the reason",
		[]string{"TestChainedHandler/during", "TestChainedHandlerArm64/during", "TestLosses/late handler"},
	}, {
		"a C handler for SIGURG that still calls the profiler's after Stop",
		"same results, and the handler finds all registers unchanged",
		[]string{"TestChainedHandler/after", "TestChainedHandlerArm64/after"},
	}, {
		"a crash reporter: one C handler for SIGSEGV and SIGURG, installed before the session",
		"same results; profile by the portable source",
		[]string{"TestChainedHandler/reporter before"},
	}, {
		"the crash reporter, installed during the session",
		"same results; the session ends early with an error that gives the reason",
		[]string{"TestChainedHandler/reporter during"},
	}, {
		"two Go libraries in one C process, with a session in one of them",
		"same results of both libraries",
		[]string{"TestTwoLibraries/first", "TestTwoLibraries/second"},
	}, {
		"two Go libraries in one C process, with a session in each, nested or overlapping",
		"same results of both libraries",
		[]string{"TestTwoLibraries/both", "TestTwoLibraries/nested", "TestTwoLibraries/crossed"},
	}, {
		"a second Go library that is loaded during a session in the first",
		"same results of both libraries",
		[]string{"TestTwoLibraries/late"},
	}, {
		"a plugin (package `plugin`), loaded before the session or during it",
		"the plugin's code is sampled like the program's, with inlined calls",
		[]string{"TestPlugin/early", "TestPlugin/late"},
	}, {
		"`secret.Do` (`GOEXPERIMENT=runtimesecret`, Go 1.26)",
		"afterwards the secret is not in the program's memory, as without a session",
		[]string{"TestSecrets/plain", "TestSecrets/sampled"},
	}, {
		"threads of C that call Go, some with all signals blocked",
		"same results",
		[]string{"TestCgo"},
	}, {
		"`RLIMIT_NPROC` leaves no room for threads",
		"no session, and an error that names RLIMIT_NPROC",
		[]string{"TestNoRoom/max processes"},
	},
}

// TestHarmShown compares the table of these cases with docs/harm.md, or writes it with -update. It checks
// that the tests exist.
func TestHarmShown(t *testing.T) {
	names := nativeTests(t)
	var b strings.Builder
	b.WriteString("\n| case | with a session | tests |\n|---|---|---|\n")
	for _, c := range shownCases {
		var tests []string
		for _, name := range c.tests {
			if test, sub, _ := strings.Cut(name, "/"); names[test] == nil || sub != "" && !names[test][sub] {
				t.Errorf("there is no %s", name)
			}
			tests = append(tests, "`"+name+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.what, c.result, strings.Join(tests, ", "))
	}
	b.WriteByte('\n')
	written(t, "shown elsewhere", b.String())
}

// nativeTests returns the tests of the native source, and for each the strings in its code, which
// include the names of its subtests.
func nativeTests(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../sampler/internal/native/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err, fs.ErrNotExist)
	}
	tests := map[string]map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(d.Name.Name, "Test") {
				in := map[string]bool{}
				ast.Inspect(d, func(n ast.Node) bool {
					if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
						if s, err := strconv.Unquote(l.Value); err == nil {
							in[s] = true
						}
					}
					return true
				})
				tests[d.Name.Name] = in
			}
		}
	}
	return tests
}
