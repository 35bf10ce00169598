//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// restless are the calls of C that Linux ends with EINTR after a signal handler has run, even if the
// handler asks for a restart.
var restless = []string{"nanosleep", "clock_nanosleep", "usleep", "poll", "select", "sem_timedwait"}

// waitModes are the columns of the table of waits.
var waitModes = []struct {
	name string
	env  []string
}{
	{"without profiler", nil},
	{"native, 1 kHz", []string{"PROFILE_SOURCE=native", "PROFILE_RATE=1000"}},
	{"native, 10 kHz", []string{"PROFILE_SOURCE=native", "PROFILE_RATE=10000"}},
	{"portable, 10 kHz", []string{"PROFILE_SOURCE=portable", "PROFILE_RATE=10000"}},
}

// TestPeerHarmWaits counts waits of 1 ms in C that a signal ended early. Some calls are never interrupted, and none is on a
// thread that C has created. The other figures differ from run to run: with -update the test writes them to docs/harm.md, and
// without it compares only what they are of.
func TestPeerHarmWaits(t *testing.T) {
	testenv.Command(t, "gcc", "apt-get install gcc")
	n := 100
	if *update {
		n = 1000
	}
	const cond, own = "pthread_cond_timedwait", "all of them, on a thread that C has created"
	calls := append(slices.Clone(restless), cond)
	program := buildCase(t, true)
	var b strings.Builder
	fmt.Fprintf(&b, "\nThis table has the number of waits that ended with EINTR, of 1,000 waits of 1 ms with 100 µs of Go code before each. The\n"+
		"budget was 100 %%, so the source took as many ticks as it could. It was measured on %s on %d cores.\n\n| wait |", time.Now().Format("2 January 2006"), runtime.NumCPU())
	for _, m := range waitModes {
		fmt.Fprintf(&b, " %s |", m.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(waitModes)) + "\n")
	for _, row := range append(calls, own) {
		fmt.Fprintf(&b, "| %s |", map[bool]string{true: own, false: "`" + row + "`"}[row == own])
		for _, m := range waitModes {
			got, most := 0, n
			if row == own {
				for _, call := range calls {
					got += interrupted(t, program, call, n/len(calls), true, m.env)
				}
			} else {
				got = interrupted(t, program, row, n, false, m.env)
			}
			switch {
			case row == own || row == cond:
				most = 0
			case m.env == nil:
				most = n / 20 // the runtime's own preemption interrupts one now and then
			}
			if got > most {
				t.Errorf("%s, %s: %d of %d waits interrupted, want at most %d", row, m.name, got, n, most)
			}
			fmt.Fprintf(&b, " %d |", got)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	if *update {
		written(t, "figures", b.String())
		return
	}
	figures := regexp.MustCompile(`\b\d+ \||on \d.*`)
	_, page, _ := part(t, "figures")
	if got, want := figures.ReplaceAllString(page, "N"), figures.ReplaceAllString(b.String(), "N"); got != want {
		t.Errorf("%s has\n%s\nwant\n%s", harmPage, got, want)
	}
}

// interrupted runs n waits and returns how many ended with EINTR.
func interrupted(t *testing.T, program, call string, n int, own bool, env []string) int {
	t.Helper()
	args := []string{"waits", call, strconv.Itoa(n)}
	if own {
		args = append(args, "own")
	}
	cmd := exec.Command(program, args...)
	cmd.Env = environ()
	if env != nil {
		cmd.Env = append(append(cmd.Env, "PROFILE_OUT="+t.TempDir()+"/x.tach", "PROFILE_BUDGET=100"), env...)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	got, bad := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || bad != nil {
		t.Fatalf("%s: %v, it prints %q", cmd, err, out)
	}
	return got
}
