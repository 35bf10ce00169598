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

	"github.com/gotach/profiler/internal/reader"
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

// A program in a container, with pid and mount namespaces and a root folder of its own, is read from the host and from a container beside it, which
// shares only the pid namespace. Neither has its executable at the same path.
func TestPeerNamespaces(t *testing.T) {
	unshare, nsenter := testenv.Command(t, "unshare", "apt-get install util-linux"), testenv.Command(t, "nsenter", "apt-get install util-linux")
	args := []string{"--pid", "--mount", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command(unshare, append(args, "true")...).CombinedOutput(); err != nil {
		testenv.Skip(t, fmt.Sprintf("unshare: %v: %s", err, out))
	}
	dir := t.TempDir()
	const contain = `mount -t tmpfs none "$0"; mkdir "$0/proc"; mount -t proc none "$0/proc"; cp "$1" "$0/app"; shift; exec chroot "$0" /app "$@"`
	x := start(t, unshare, append(args, "sh", "-ec", contain, dir, build(t, "", "-ldflags=-s -w", "-tags=netgo"), "move", "burn")...)
	child := testenv.Must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", x.pid)))
	_ = testenv.Must(fmt.Sscan(string(child), &x.pid))
	app := filepath.Join(dir, "app")
	if _, err := os.Stat(app); err == nil {
		t.Error("the executable is in this namespace too")
	}
	compare(t, x)
	check := func(from, path string, pid int) {
		f := testenv.Must(reader.Open(path))
		defer f.Close()
		if s := testenv.Must(f.Overview()).Session; s.Executable != app || s.PID != pid || s.MaxGoroutines < 31 || s.TicksReached == 0 {
			t.Errorf("%s: %+v", from, s)
		}
	}
	host := filepath.Join(dir, "host.tach")
	recordTo(t, x, host, 50, func(stop func()) { stop() })
	check("from the host", host, x.pid)
	gotach, beside := testenv.Must(testenv.BuildGotach(dir)), filepath.Join(dir, "beside.tach")
	cmd := exec.Command(nsenter, fmt.Sprintf("--pid=/proc/%d/ns/pid", x.pid), unshare, "--mount", "--mount-proc", gotach, "record", "1", "-d", "300ms", "-o", beside)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check("from a container beside", beside, 1)
}
