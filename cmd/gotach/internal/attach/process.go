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
	"syscall"
	"time"

	"github.com/gotach/profiler/internal/files"
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
		if p.program, err = p.memory.ofProcess(name); errors.Is(err, errNotGo) {
			p.program, err = p.memory.ofLibrary()
		}
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
	entry := entryOf(auxv)
	if entry == 0 {
		return nil, errEarly // the kernel has not mapped it yet
	}
	return m.load(file, name, 0, entry)
}

// ofLibrary reads the Go program in a shared library of a process, the first one of several. The library may be in another mount namespace, but not deleted.
func (m *memory) ofLibrary() (*program, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", m.pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line) // lo-hi rights offset device inode path
		_, path, named := strings.Cut(strings.TrimSpace(line), "/")
		if !named || strings.Trim(f[2], "0") != "" {
			continue
		}
		path = "/" + path
		file, fi, err := files.Open(fmt.Sprintf("/proc/%d/root%s", m.pid, path))
		if err != nil {
			continue
		}
		lo, _, _ := strings.Cut(f[0], "-")
		base, err := strconv.ParseUint(lo, 16, 64)
		var p *program
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && err == nil && strconv.FormatUint(st.Ino, 10) == f[4] {
			p, err = m.load(file, path, base, 0)
		}
		file.Close()
		if p != nil || err != nil && !errors.Is(err, errNotGo) {
			return p, err
		}
	}
	return nil, errNotGo
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
