//go:build linux && (amd64 || arm64)

package attach

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// denied returns an error that says why a process may not be read, and what helps. err is the kernel's answer.
func denied(pid int, err error) error {
	what := fmt.Sprintf("process %d may not be read", pid)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	own, _ := os.ReadFile("/proc/self/status")
	_, itself := unix.ProcessVMReadv(os.Getpid(), nil, nil, 0)
	caps, _ := strconv.ParseUint(statusField(own, "CapEff"), 16, 64)
	mayTrace := caps>>unix.CAP_SYS_PTRACE&1 != 0
	yama := setting("yama/ptrace_scope")
	uid, me := statusField(status, "Uid"), os.Geteuid()
	switch {
	case itself != nil:
		return fmt.Errorf("%s: a seccomp filter forbids process_vm_readv here; in a container of Docker or Kubernetes, set its seccomp profile to Unconfined", what)
	case uid != "" && uid != strconv.Itoa(me) && me != 0:
		name := uid
		if u, err := user.LookupId(uid); err == nil {
			name = u.Username
		}
		return fmt.Errorf("%s: it is one of user %s; run gotach as that user, or with sudo", what, name)
	case mayTrace:
		return fmt.Errorf("%s, although this process has CAP_SYS_PTRACE (%w): is it in another user namespace? Run gotach in it, or outside of both", what, err)
	case me == 0:
		return fmt.Errorf("%s: root here has no CAP_SYS_PTRACE; in a container: docker run --cap-add SYS_PTRACE, or kubectl debug --profile=general", what)
	case yama > 0 && !hides(pid, uid):
		return fmt.Errorf("%s: the kernel's Yama lets a process read only its own children (kernel.yama.ptrace_scope is %d); run gotach with sudo, or once: sudo sysctl kernel.yama.ptrace_scope=0", what, yama)
	case hides(pid, uid):
		return fmt.Errorf("%s: it has changed its user or was started from a file that its user may not read (its dumpable flag is 0); run gotach with sudo", what)
	}
	return fmt.Errorf("%s (%w); run gotach with sudo", what, errors.Unwrap(err))
}

// deniedPerf returns an error that says why there are no perf events, and what helps. err is the kernel's answer.
func deniedPerf(err error) error {
	const what = "what running goroutines call is not known, because the kernel gives no perf events"
	n := setting("perf_event_paranoid")
	switch {
	case !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s (%w)", what, err)
	case n > 2 && os.Geteuid() != 0:
		return fmt.Errorf("%s to ordinary users (kernel.perf_event_paranoid is %d); run gotach with sudo, or once: sudo sysctl kernel.perf_event_paranoid=2", what, n)
	}
	return fmt.Errorf("%s here; in a container: docker run --cap-add PERFMON", what)
}

// statusField returns the first value of a line of /proc/PID/status.
func statusField(status []byte, name string) string {
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				return f[min(1, len(f)-1)] // of several user ids the second one, which counts
			}
		}
	}
	return ""
}

// hides reports whether the kernel has given the files of a process in /proc to root, as it does if dumpable is 0.
func hides(pid int, uid string) bool {
	var st unix.Stat_t
	return uid != "0" && unix.Stat(fmt.Sprintf("/proc/%d/maps", pid), &st) == nil && st.Uid == 0
}

// setting returns a number that the kernel is set to, 0 if it has none.
func setting(name string) int {
	b, _ := os.ReadFile("/proc/sys/kernel/" + name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}
