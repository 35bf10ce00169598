//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
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

// TestHarmFigures checks the numbers of interrupted waits in docs/harm.md: which rows and columns there are, and
// which numbers must be 0 or small. With -update it measures the numbers and writes them. The numbers differ from
// run to run, so TestHarmTable compares only whether waits are interrupted at all.
func TestHarmFigures(t *testing.T) {
	const n = 1000
	modes := append(slices.Clone(waitModes), waitModes[0])
	modes[3].name, modes[3].env = "portable, 10 kHz", []string{"PROFILE_SOURCE=portable", "PROFILE_RATE=10000"}
	for i := range modes {
		if modes[i].env != nil {
			modes[i].env = append(slices.Clone(modes[i].env), "PROFILE_BUDGET=100")
		}
	}
	const cond = "pthread_cond_timedwait"
	var rows []string
	for _, call := range append(slices.Clone(restless), cond) {
		rows = append(rows, "`"+call+"`")
	}
	rows = append(rows, "all of them, on a thread that C has created")
	if *update {
		program := buildCase(t, true)
		var b strings.Builder
		fmt.Fprintf(&b, "\nThis table has the number of waits that ended with EINTR, of 1,000 waits of 1 ms with 100 µs of Go code before each. The\n"+
			"budget was 100 %%, so the source took as many ticks as it could. It was measured on %s on %d cores.\n\n| wait |", time.Now().Format("2 January 2006"), runtime.NumCPU())
		for _, m := range modes {
			fmt.Fprintf(&b, " %s |", m.name)
		}
		b.WriteString("\n|---|" + strings.Repeat("--:|", len(modes)) + "\n")
		for i, row := range rows {
			fmt.Fprintf(&b, "| %s |", row)
			for _, m := range modes {
				got := 0
				if i < len(rows)-1 {
					got = interrupted(t, program, strings.Trim(row, "`"), n, false, m.env)
				} else {
					for _, call := range rows[:i] {
						got += interrupted(t, program, strings.Trim(call, "`"), n/i, true, m.env)
					}
				}
				fmt.Fprintf(&b, " %d |", got)
			}
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
		written(t, "figures", b.String())
	}
	_, text, _ := part(t, "figures")
	var table [][]string
	for line := range strings.Lines(text) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); strings.HasPrefix(line, "| ") {
			cells[0], cells[len(cells)-1] = strings.TrimPrefix(cells[0], "| "), strings.TrimSuffix(cells[len(cells)-1], " |")
			table = append(table, cells)
		}
	}
	if len(table) != len(rows)+1 {
		t.Fatalf("%s has %d rows of figures, want %d", harmPage, len(table)-1, len(rows))
	}
	for i, m := range modes {
		if len(table[0]) != len(modes)+1 || table[0][i+1] != m.name {
			t.Fatalf("the columns of figures are %q", table[0])
		}
	}
	for i, row := range rows {
		cells := table[i+1]
		if len(cells) != len(modes)+1 || cells[0] != row {
			t.Fatalf("row %d of figures is %q, want %s", i, cells, row)
		}
		for j, m := range modes {
			most := n
			switch {
			case i >= len(restless):
				most = 0
			case m.env == nil:
				most = n / 20
			}
			if got, err := strconv.Atoi(cells[j+1]); err != nil || got < 0 || got > most {
				t.Errorf("%s, %s: %s waits interrupted, want 0 to %d", row, m.name, cells[j+1], most)
			}
		}
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
