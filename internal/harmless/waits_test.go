//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// restless are the calls of C that Linux ends with EINTR after a signal handler has run, even if the
// handler asks for a restart.
var restless = []string{"nanosleep", "clock_nanosleep", "usleep", "poll", "select", "sem_timedwait"}

// waitModes are the columns of the table of waits. The portable source is not one of them: it
// interrupts so few waits that no test can rely on it.
var waitModes = []struct {
	name string
	env  []string
}{
	{"without profiler", nil},
	{"native, 1 kHz", []string{"PROFILE_SOURCE=native", "PROFILE_RATE=1000"}},
	{"native, 10 kHz", []string{"PROFILE_SOURCE=native", "PROFILE_RATE=10000"}},
}

// interruptions counts waits of 1 ms that a signal ended early, and returns the table of waits.
func interruptions(t *testing.T, program string) string {
	t.Helper()
	var b, rule strings.Builder
	b.WriteString("| wait |")
	rule.WriteString("|---|")
	for _, m := range waitModes {
		fmt.Fprintf(&b, " %s |", m.name)
		rule.WriteString("---|")
	}
	fmt.Fprintf(&b, "\n%s\n", &rule)
	const n = 100
	for _, row := range []struct {
		what  string
		calls []string
		own   bool
	}{
		{"`" + strings.Join(restless, "`, `") + "`, on the thread of a goroutine that calls C", restless, false},
		{"`pthread_cond_timedwait` on such a thread", []string{"pthread_cond_timedwait"}, false},
		{"all of these on a thread that C has created", append([]string{"pthread_cond_timedwait"}, restless...), true},
	} {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, m := range waitModes {
			said := "never"
			if m.env == nil && !row.own && len(row.calls) > 1 {
				// The runtime's own preemption interrupts one now and then.
				for _, call := range row.calls {
					if got := interrupted(t, program, call, n, false, nil); got > n/20 {
						t.Errorf("%s without the profiler: %d of %d waits interrupted", call, got, n)
					}
				}
				b.WriteString(" rarely, by Go's own signals |")
				continue
			}
			for round := 0; round < 20 && said == "never"; round++ {
				for _, call := range row.calls {
					got := interrupted(t, program, call, n, row.own, m.env)
					t.Logf("%s, %s, on a thread created by C: %v: %d of %d waits interrupted", m.name, call, row.own, got, n)
					if got > 0 {
						said = "EINTR at times"
					}
				}
				if row.own || m.env == nil {
					break
				}
			}
			fmt.Fprintf(&b, " %s |", said)
		}
		b.WriteByte('\n')
	}
	return b.String()
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
		cmd.Env = append(append(cmd.Env, "PROFILE_OUT="+t.TempDir()+"/x.tach"), env...)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	got, bad := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || bad != nil {
		t.Fatalf("%s: %v, it prints %q", cmd, err, out)
	}
	return got
}
