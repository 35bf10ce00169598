//go:build peers && (amd64 || arm64)

package attach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// Recording only reads: the program gets no signal of others and opens no file, and gotach traces, signals and writes to nothing of it.
func TestPeerReads(t *testing.T) {
	strace := testenv.Command(t, "strace", "apt-get install strace")
	dir := t.TempDir()
	gotach := testenv.Must(testenv.BuildGotach(dir))
	x := start(t, build(t, "", "-ldflags=-s -w"), "move", "burn")
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
	watch := exec.Command(strace, "-f", "-qq", "-o", theirs, "-p", fmt.Sprint(x.pid))
	testenv.OK(t, watch.Start())
	testenv.Await(func() bool { b, _ := os.ReadFile(theirs); return len(b) > 0 })
	record := exec.Command(strace, "-f", "-qq", "-o", ours, gotach, "record", fmt.Sprint(x.pid), "-d", "300ms", "-o", filepath.Join(dir, "x.tach"))
	if out, err := record.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testenv.OK(t, watch.Process.Signal(syscall.SIGINT))
	_ = watch.Wait() // it ends by the signal
	own := regexp.MustCompile(fmt.Sprintf(`--- SIG\w+ \{.*si_pid=%d\b`, x.pid))
	for line := range strings.Lines(string(testenv.Must(os.ReadFile(theirs)))) {
		if strings.Contains(line, "--- SIG") && !own.MatchString(line) || strings.Contains(line, " open") {
			t.Errorf("the program: %s", line)
		}
	}
	calls := string(testenv.Must(os.ReadFile(ours)))
	if !strings.Contains(calls, fmt.Sprintf("process_vm_readv(%d,", x.pid)) {
		t.Error("gotach did not read the program's memory")
	}
	forbidden := regexp.MustCompile(fmt.Sprintf(`\b(ptrace|process_vm_writev|pidfd_\w+|process_madvise)\(|\bt?g?kill\(-?%d\b|sigqueueinfo\(%[1]d\b|"/proc/%[1]d\b.*(O_WRONLY|O_RDWR|O_CREAT)`, x.pid))
	for line := range strings.Lines(calls) {
		if forbidden.MatchString(line) {
			t.Errorf("gotach: %s", line)
		}
	}
}

// A program in other pid and mount namespaces, as in a container, is read from the host.
func TestPeerNamespaces(t *testing.T) {
	unshare := testenv.Command(t, "unshare", "apt-get install util-linux")
	args := []string{"--pid", "--mount", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command(unshare, append(args, "true")...).CombinedOutput(); err != nil {
		testenv.Skip(t, fmt.Sprintf("unshare: %v: %s", err, out))
	}
	x := start(t, unshare, append(args, build(t, "", "-ldflags=-s -w"), "move", "burn")...)
	child := testenv.Must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", x.pid)))
	_ = testenv.Must(fmt.Sscan(string(child), &x.pid))
	compare(t, x)
	r := recordTo(t, x, filepath.Join(t.TempDir(), "x.tach"), 50, func(stop func()) { stop() })
	if r.Ended != nil || r.MaxGoroutines < 31 {
		t.Errorf("%+v", r)
	}
}
