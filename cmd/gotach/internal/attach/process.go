//go:build linux && (amd64 || arm64)

package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gotach/profiler/internal/files"
	"golang.org/x/sys/unix"
)

// A Process is one that runs a Go program.
type Process struct {
	PID    int
	Name   string // of its executable
	Second string // the path of a second library of Go in it, which is not read; "": there is none
	memory
	Pauses  bool // threads that run are stopped for an instant, to read what they call
	program *program
	gs      []uint64        // addresses of all goroutines that the runtime ever made, ascending; it never frees one
	ends    *farEnds        // nil: they are not looked for
	threads map[uint64]regs // of a core, by thread id; nil: it is a process
	tids    map[uint64]int  // of its threads, by what they are in its namespace; those that are known
	room    []byte          // of stackFrom
	most    int             // for tests: instead of mostCalls
}

// patience is how long Open waits for a program's runtime to begin.
const patience = 5 * time.Second

// Open finds the goroutines of a process. Its error says why they cannot be read, and what helps.
// If the process has just been started, Open waits until the program's runtime has begun, but only
// until ctx ends.
func Open(ctx context.Context, pid int) (*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		p, err := open(pid)
		if !errors.Is(err, errEarly) || ctx.Err() != nil {
			return p, err
		}
		time.Sleep(time.Millisecond)
	}
}

func open(pid int) (*Process, error) {
	p := &Process{PID: pid, memory: memory{pid: pid}}
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err == nil {
		p.Name = strings.TrimSuffix(filepath.Base(name), " (deleted)")
		if p.program, err = p.memory.ofProcess(name); errors.Is(err, ErrNotGo) {
			p.program, err = p.ofLibrary()
		}
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOSYS):
		return nil, denied(pid, err)
	case errors.Is(err, fs.ErrNotExist) && name == "":
		return nil, fmt.Errorf("%w %d, or it is one of the kernel's", ErrEnded, pid)
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("%w %d any more", ErrEnded, pid)
	}
	return nil, fmt.Errorf("process %d (%s): %w", pid, p.Name, err)
}

// ofProcess reads the program of a process. It works with programs that were stripped, deleted or
// replaced on disk, or are in another mount namespace: /proc/PID/exe is the file itself.
func (m *memory) ofProcess(name string) (*program, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/exe", m.pid))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", m.pid))
	if err != nil {
		return nil, err
	}
	entry := entryOf(auxv)
	if entry == 0 {
		return nil, errEarly // the kernel has not mapped it yet
	}
	return m.load(file, name, 0, entry)
}

// ofLibrary reads the Go program in a shared library of a process, the first one of several. The
// library may be in another mount namespace. Only root may open one that was deleted or replaced on
// disk since it was loaded.
func (p *Process) ofLibrary() (found *program, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID))
	if err != nil {
		return nil, err
	}
	err = ErrNotGo
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line) // lo-hi rights offset device inode path
		_, path, named := strings.Cut(strings.TrimSpace(line), "/")
		if !named || strings.Trim(f[2], "0") != "" || !strings.HasSuffix(f[1], "p") {
			continue
		}
		file, fi, failed := files.Open(fmt.Sprintf("/proc/%d/map_files/%s", p.PID, f[0]))
		if failed != nil {
			file, fi, failed = files.Open(fmt.Sprintf("/proc/%d/root/%s", p.PID, path))
		}
		switch {
		case failed == nil && fmt.Sprint(fi.Sys().(*syscall.Stat_t).Ino) == f[4]:
			var base uint64
			_, _ = fmt.Sscanf(line, "%x", &base)
			switch q, failed := p.load(file, "/"+path, base, 0); {
			case errors.Is(failed, ErrNotGo):
			case found != nil:
				p.Second = "/" + path
			default:
				found, err = q, failed
			}
		case err == ErrNotGo:
			err = fmt.Errorf("%w; only root may read what was deleted or replaced on disk, as /%s was", err, strings.TrimSuffix(path, " (deleted)"))
		}
		file.Close()
	}
	return found, err
}

// denied returns an error that says why a process may not be read, and what helps. err is the
// kernel's answer.
func denied(pid int, err error) error {
	what := fmt.Sprintf("process %d may not be read", pid)
	_, itself := unix.ProcessVMReadv(os.Getpid(), nil, nil, 0)
	caps, _ := strconv.ParseUint(statusField("self", "CapEff"), 16, 64)
	yama := setting("yama/ptrace_scope")
	uid, me := statusField(strconv.Itoa(pid), "Uid"), os.Geteuid()
	var maps unix.Stat_t // the kernel has given it to root if dumpable is 0
	hides := uid != "0" && unix.Stat(fmt.Sprintf("/proc/%d/maps", pid), &maps) == nil && maps.Uid == 0
	switch {
	case itself != nil:
		return fmt.Errorf("%s: a seccomp filter forbids process_vm_readv here; in a container of Docker or Kubernetes, set its seccomp profile to Unconfined", what)
	case uid != "" && uid != strconv.Itoa(me) && me != 0:
		name := uid
		if u, err := user.LookupId(uid); err == nil {
			name = u.Username
		}
		return fmt.Errorf("%s: it is one of user %s; run gotach as that user, or with sudo", what, name)
	case caps>>unix.CAP_SYS_PTRACE&1 != 0:
		return fmt.Errorf("%s, although this process has CAP_SYS_PTRACE (%w): is it in another user namespace? Run gotach in it, or outside of both", what, err)
	case me == 0:
		return fmt.Errorf("%s: root here has no CAP_SYS_PTRACE; in a container: docker run --cap-add SYS_PTRACE, or kubectl debug --profile=general", what)
	case hides:
		return fmt.Errorf("%s: it has changed its user or was started from a file that its user may not read (its dumpable flag is 0); run gotach with sudo", what)
	case yama > 0:
		return fmt.Errorf("%s: the kernel's Yama lets a process read only its own children (kernel.yama.ptrace_scope is %d); run gotach with sudo, or once: sudo sysctl kernel.yama.ptrace_scope=0", what, yama)
	}
	return fmt.Errorf("%s (%w); run gotach with sudo", what, err)
}

// deniedPerf returns an error that says why there are no perf events, and what helps. err is the
// kernel's answer.
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

// statusField returns the last value of a line of /proc/PID/status. Of several user ids it is the
// one that the kernel checks.
func statusField(pid, name string) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%s/status", pid)) // it may have ended
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	f := strings.Fields(line)
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}

// tasks returns the ids of the threads of a process that have not ended, and that of the first one
// until the last one has.
func tasks(pid int) (ids []int, err error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, n := range names {
		id, _ := strconv.Atoi(n.Name())
		ids = append(ids, id)
	}
	return ids, err
}

// setting returns a number that the kernel is set to, 0 if it has none.
func setting(name string) int {
	b, _ := os.ReadFile("/proc/sys/kernel/" + name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}
