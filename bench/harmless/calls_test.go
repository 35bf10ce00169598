//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/syscalls"
	"github.com/gotach/profiler/internal/testenv"
)

// TestHarmCalls compares the lists of package syscalls with docs/harm.md, or writes them with -update.
// TestSystemCalls of bench/e2e checks that the lists are complete.
func TestHarmCalls(t *testing.T) {
	var b strings.Builder
	var names []string
	for _, c := range syscalls.Runtime {
		names = append(names, c.Name)
	}
	if runtime.GOARCH == "arm64" {
		names = append(names, "arch_prctl") // the page has the list of amd64
	}
	slices.Sort(names)
	fmt.Fprintf(&b, "\nEvery Go program makes these: `%s`.\n", strings.Join(names, "`, `"))
	for _, list := range []struct {
		who   string
		calls []syscalls.Call
	}{
		{"A session makes these, with either source", syscalls.Session},
		{"The native source makes these too", syscalls.Native},
	} {
		fmt.Fprintf(&b, "\n%s:\n\n| call | for |\n|---|---|\n", list.who)
		for _, c := range list.calls {
			if c.Name == "fstatat" {
				c.Name = "newfstatat" // as amd64 calls it
			}
			if c.Why == "" {
				t.Errorf("%s: Why is empty", c.Name)
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.Name, c.Why)
		}
	}
	b.WriteByte('\n')
	testenv.Marked(t, harmPage, "system calls", b.String(), *update)
}

// systemCalls matches constants of system calls in code.
var systemCalls = regexp.MustCompile(`unix\.SYS_([A-Z0-9_]+)`)

// The lists have every system call that the code of the native source names.
func TestSystemCallsAreListed(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range slices.Concat(syscalls.Runtime, syscalls.Session, syscalls.Native) {
		listed[c.Name] = true
	}
	files := testenv.Must(filepath.Glob("../../sampler/internal/*/*.go"))
	found := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text := testenv.Must(os.ReadFile(f))
		for _, m := range systemCalls.FindAllStringSubmatch(string(text), -1) {
			found++
			if name := strings.ToLower(m[1]); !listed[name] {
				t.Errorf("%s calls %s, which package syscalls does not list", f, name)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d system calls found in %d files", found, len(files))
	}
}
