package top

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// ErrNoProfile says that a process writes no profile.
var ErrNoProfile = errors.New("it is writing no profile")

// Process watches a process that is writing a profile. It finds the file among the process's open
// files, which only Linux shows.
func Process(pid int) (*Watch, error) {
	path, err := openProfile(pid)
	if err != nil {
		return nil, err
	}
	f, err := reader.Follow(path)
	if err != nil {
		return nil, err
	}
	next := func(before string, session *tachyon.Session) string {
		if path, err := openProfile(pid); err == nil && path != before {
			return path
		}
		return nextFile(before, session)
	}
	return newFileWatch(path, f, next), nil
}

// proc is where the kernel shows processes.
const proc = "/proc"

// openProfile returns the path of the profile that a process is writing: a file that it has open,
// with a journal beside it.
func openProfile(pid int) (string, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if _, err := os.Stat(proc + "/self/fd"); err != nil {
		return "", fmt.Errorf("process %d: the files of a process can be found on Linux only; name the file instead", pid)
	}
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("process %d: there is no such process", pid)
	}
	list, err := os.ReadDir(dir + "/fd")
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("process %d: it belongs to another user; run gotach as that user or as root, or name the file that it writes", pid)
	}
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	var finished []string
	for _, e := range list {
		fd := filepath.Join(dir, "fd", e.Name())
		path, err := os.Readlink(fd)
		if err != nil || !strings.HasPrefix(path, "/") || strings.HasSuffix(path, ".journal") {
			continue
		}
		own, err := os.Stat(fd)
		if err != nil || !own.Mode().IsRegular() {
			continue
		}
		// The process may have another root or other mounts, as in a container. Then another file
		// may have its path here.
		for _, path := range []string{path, dir + "/root" + path} {
			if fi, err := os.Stat(path); err != nil || !os.SameFile(own, fi) {
				continue
			}
			if fi, err := os.Stat(path + ".journal"); err == nil && fi.Mode().IsRegular() {
				return path, nil
			}
		}
		if strings.HasSuffix(path, ".tach") {
			finished = append(finished, path)
		}
	}
	if slices.Sort(finished); len(finished) > 0 {
		return "", fmt.Errorf("process %d has %s open, but there is no journal beside it: it is not being written, or without a journal (Session.Err and the log say why)", pid, finished[0])
	}
	return "", fmt.Errorf(`process %d: %w. A program writes one
  with  defer profiler.Start().Stop()  in main (package github.com/gotach/profiler), or
  with  import _ "github.com/gotach/profiler/auto"  and PROFILE_OUT=app.tach in its environment.
If it serves httpprof.Handler, give the URL: gotach top http://HOST:PORT/debug/profile`, pid, ErrNoProfile)
}
