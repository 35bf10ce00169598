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
	b.WriteString(waitHead())
	for _, row := range append(calls, own) {
		fmt.Fprintf(&b, "| %s |", map[bool]string{true: own, false: "`" + row + "`"}[row == own])
		for _, m := range waitModes {
			got, most := 0, n
			if row == own {
				for _, call := range calls {
					got += interrupted(t, program, m.env, "waits", call, strconv.Itoa(n/len(calls)), "own")
				}
			} else {
				got = interrupted(t, program, m.env, "waits", row, strconv.Itoa(n))
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
	figures(t, "figures", b.String())
}

// waitHead returns the rest of a table's head.
func waitHead() string {
	head := ""
	for _, m := range waitModes {
		head += " " + m.name + " |"
	}
	return head + "\n|---|" + strings.Repeat("--:|", len(waitModes)) + "\n"
}

// figures compares a part of the page with want, but for its figures, or writes it with -update.
func figures(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		written(t, name, want)
		return
	}
	figures := regexp.MustCompile(`\b\d+ \||on \d.*`)
	_, page, _ := part(t, name)
	if got, want := figures.ReplaceAllString(page, "N"), figures.ReplaceAllString(want, "N"); got != want {
		t.Errorf("%s has\n%s\nwant\n%s", harmPage, got, want)
	}
}

// callRows are the rows of the table of system calls that programs in Go make. These calls end with EINTR or EAGAIN after a
// signal, also with SA_RESTART.
var callRows = []struct {
	what, name string
	never      bool // no signal ends the call
	divide     int  // so many fewer calls
}{
	{"`bpf(BPF_PROG_LOAD)` of a small program", "bpf", false, 1},
	{"`bpf(BPF_PROG_LOAD)`, some 30 ms", "long bpf", false, 10},
	{"the same, with up to five attempts", "bpf, five attempts", true, 10},
	{"`syscall.Open` in a FUSE file system, 1 ms", "FUSE open", false, 1},
	{"`os.Open` there", "FUSE os.Open", true, 1},
	{"`io_uring_enter`, 1 ms", "io_uring", false, 1},
	{"`io_uring_enter` with `syscall.RawSyscall6`, 1 ms", "raw io_uring", false, 1},
	{"`nanosleep` with `syscall.RawSyscall`, 1 ms", "raw nanosleep", false, 1},
}

// TestPeerHarmInterrupted counts system calls that a signal ended. Where the caller tries again there must be none, with -update
// the test writes the figures, as TestPeerHarmWaits.
func TestPeerHarmInterrupted(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "only root can load BPF programs and mount file systems")
	}
	n := 50
	if *update {
		n = 1000
	}
	program := buildCase(t, false)
	var b strings.Builder
	fmt.Fprintf(&b, "\nThis table has system calls that programs in Go make, of 1,000 calls with 100 µs of Go code before each. It was measured\n"+
		"on %s on %d cores.\n\n| call |%s", time.Now().Format("2 January 2006"), runtime.NumCPU(), waitHead())
	for _, row := range callRows {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, m := range waitModes {
			got := row.divide * interrupted(t, program, m.env, "own counts", row.name, strconv.Itoa(n/row.divide))
			if row.never && got > 0 {
				t.Errorf("%s, %s: %d of %d calls failed", row.what, m.name, got, n)
			}
			fmt.Fprintf(&b, " %d |", got)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	figures(t, "more figures", b.String())
}

// interrupted runs a program that prints how many waits a signal ended, of those that its arguments say.
func interrupted(t *testing.T, program string, env []string, args ...string) int {
	t.Helper()
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
