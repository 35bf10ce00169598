//go:build linux && (amd64 || arm64)

package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is one that runs a Go program.
type Process struct {
	PID  int
	Name string // of its executable
	memory
	program *program
	roster  roster
	ends    *farEnds        // nil: they are not looked for
	threads map[uint64]regs // of a core, by thread id; nil: it is a process
	most    int             // for tests: instead of mostCalls
}

// Open finds the goroutines of a process. Its error says why they cannot be read, and what helps.
func Open(pid int) (*Process, error) {
	p := &Process{PID: pid, memory: memory{pid: pid}}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err == nil {
		p.Name = strings.TrimSuffix(filepath.Base(name), " (deleted)")
		p.program, err = p.memory.ofProcess(name)
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOSYS):
		return nil, denied(pid, err)
	case errors.Is(err, fs.ErrNotExist) && name == "":
		return nil, fmt.Errorf("process %d is one of the kernel's, or has ended", pid)
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	return nil, fmt.Errorf("process %d (%s): %w", pid, p.Name, err)
}

// ofProcess reads the program of a process. It works with programs that were stripped, deleted or replaced on disk, or are in
// another mount namespace: /proc/PID/exe is the file itself.
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
	return m.load(file, name, entryOf(auxv))
}

// Await is Open for a process that has just been started. It waits until the program's runtime has begun.
func Await(ctx context.Context, pid int) (*Process, error) {
	for {
		p, err := Open(pid)
		if !errors.Is(err, errEarly) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Millisecond):
		}
	}
}

// Named returns the one process whose executable has a name. This process does not count.
func Named(name string) (int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var found []string
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", d.Name(), "exe"))
		comm, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "comm"))
		if err == nil && strings.TrimSuffix(filepath.Base(exe), " (deleted)") == name || err != nil && strings.TrimSpace(string(comm)) == name {
			found = append(found, d.Name())
		}
	}
	switch len(found) {
	case 0:
		return 0, fmt.Errorf("there is no process %q", name)
	case 1:
		return strconv.Atoi(found[0])
	}
	return 0, fmt.Errorf("there are %d processes %q: %s; say which one", len(found), name, strings.Join(found, ", "))
}
