//go:build linux && (amd64 || arm64)

package harmless

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/syscalls"
	"github.com/gotach/profiler/internal/testenv"

	"golang.org/x/sys/unix"
)

// traces is what the program testdata/traces prints.
type traces struct {
	Before, During, After [64][4]uint64
	Without, With         int // threads
}

// traced runs the program testdata/traces.
func traced(t *testing.T, bin string, env []string, args ...string) (got traces) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Env = slices.Concat(environ(), env, []string{"GOMAXPROCS=2"})
	cmd.Stderr = os.Stderr
	testenv.OK(t, json.Unmarshal(testenv.Must(cmd.Output()), &got))
	return got
}

// buildTraces builds the program testdata/traces.
func buildTraces(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "traces")
	testenv.OK(t, testenv.Build(bin, "./testdata/traces", []string{"CGO_ENABLED=0"}))
	return bin
}

// TestHarmSignals looks at the actions of all signals before, during and after a session. It compares them with docs/harm.md,
// or writes them with -update.
func TestHarmSignals(t *testing.T) {
	testenv.Long(t)
	bin := buildTraces(t)
	differ := func(a, b [64][4]uint64) string {
		var names []string
		for i := range a {
			if a[i] != b[i] {
				names = append(names, unix.SignalName(syscall.Signal(i+1)))
			}
		}
		if names == nil {
			return "none"
		}
		return strings.Join(names, ", ")
	}
	var b strings.Builder
	b.WriteString("\n| session | signals with another action during it | after Stop |\n|---|---|---|\n")
	none := traced(t, bin, nil, "auto").Before
	for _, source := range []string{"native", "portable"} {
		env, out := []string{"PROFILE_SOURCE=" + source}, filepath.Join(t.TempDir(), "x.tach")
		got := traced(t, bin, env, "start", out)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", source, differ(got.Before, got.During), differ(got.Before, got.After))
		got = traced(t, bin, append(env, "PROFILE_OUT="+out), "auto")
		fmt.Fprintf(&b, "| %s, by package auto | %s | %s |\n", source, differ(none, got.During), differ(none, got.After))
	}
	b.WriteByte('\n')
	testenv.Marked(t, harmPage, "signals", b.String(), *update)
}

// shortCases are the names of eight cases that end in different ways.
var shortCases = []string{
	"returns", "exits 3", "exits from a goroutine", "exits while Start runs", "panics", "panics in a goroutine", "nil", "SIGTERM",
}

// TestShortPrograms checks that programs end in the same way with a session, if they end while it
// begins or a few ticks later. The sessions have 10 kHz. Half of them have the portable source.
func TestShortPrograms(t *testing.T) {
	testenv.Long(t)
	programs := testenv.Times(len(shortCases), 20_000)
	bin, rows := buildCase(t, false), harmRows(t)
	var cases []harmCase
	for _, c := range harmSections[0].cases {
		if slices.Contains(shortCases, c.name) && c.env == nil {
			c.env, c.racy = []string{"GOTACH_SHORT=1"}, true
			cases = append(cases, c)
		}
	}
	testenv.Same(t, "cases", len(cases), len(shortCases))
	var all sync.WaitGroup
	var wrong sync.Map // what differs
	free := make(chan bool, runtime.NumCPU())
	for i := range programs {
		free <- true
		all.Go(func() {
			defer func() { <-free }()
			c, source := &cases[i%len(cases)], "native"
			if (i+i/len(cases))%2 == 1 {
				source = "portable"
			}
			if got, want := c.run(t, bin, source), rows[c.what][0]; got.String() != want {
				what := fmt.Sprintf("%s with the %s source: %s, without the profiler: %s", c.what, source, got, want)
				if _, known := wrong.LoadOrStore(what, true); !known { // once of thousands
					t.Errorf("%s\n%s", what, got.stderr)
				}
			}
		})
	}
	all.Wait()
}

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
			testenv.FailIf(t, c.Why == "", "%s: Why is empty", c.Name)
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
			name := strings.ToLower(m[1])
			testenv.FailIf(t, !listed[name], "%s calls %s, which package syscalls does not list", f, name)
		}
	}
	testenv.FailIf(t, found < 10, "%d system calls found in %d files", found, len(files))
}
