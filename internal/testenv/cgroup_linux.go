package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Limit returns a directory of a new cgroup whose processes get at most the CPU time of so many
// cores. Each period of the quota is 100 ms long, as in containers. Write a process id to its
// file cgroup.procs, or use [RunLimited]. All its processes must have ended when the test ends.
func Limit(t testing.TB, cores float64) string {
	t.Helper()
	const period = 100_000 // µs
	quota := int(cores * period)
	return cgroup(t, "cpu", func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%d %d", quota, period), 0)
	}, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(period)), 0); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte(strconv.Itoa(quota)), 0)
	})
}

// LimitTasks returns a directory of a new cgroup that can limit the number of its threads: write
// the number to its file pids.max. There is no limit at first. All its processes must have ended
// when the test ends.
func LimitTasks(t testing.TB) string {
	t.Helper()
	set := func(dir string) error { return os.WriteFile(filepath.Join(dir, "pids.max"), []byte("max"), 0) }
	return cgroup(t, "pids", set, set)
}

// cgroup makes a cgroup for a controller until the test ends. v2 and v1 set the limit in the two
// versions of cgroups.
func cgroup(t testing.TB, controller string, v2, v1 func(dir string) error) string {
	t.Helper()
	dir, err := makeCgroup(controller, v2, v1)
	if err != nil {
		Skip(t, "no cgroup for "+controller+": only root may make one: "+err.Error())
	}
	t.Cleanup(func() {
		Await(func() bool { // a process that was waited for may still be in it for a moment
			err := os.Remove(dir)
			if err != nil && !errors.Is(err, unix.EBUSY) {
				t.Error(err)
				return true
			}
			return err == nil
		})
	})
	return dir
}

// makeCgroup makes a cgroup below this process's own one and sets its limit.
func makeCgroup(controller string, v2, v1 func(dir string) error) (dir string, err error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("gotach-test-%d-%d", os.Getpid(), unix.Gettid())
	err = fmt.Errorf("no cgroup controller %s", controller)
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		// Controllers can share a hierarchy, such as cpu,cpuacct.
		roots, set := []string{"/sys/fs/cgroup/" + controller, "/sys/fs/cgroup/" + parts[1]}, v1
		switch {
		case parts[1] == "" && parts[0] == "0":
			roots, set = []string{"/sys/fs/cgroup"}, v2
		case !slices.Contains(strings.Split(parts[1], ","), controller):
			continue
		}
		for _, root := range roots {
			controllers, _ := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
			if parts[1] == "" && !slices.Contains(strings.Fields(string(controllers)), controller) {
				continue
			}
			// In a container the path can be that outside of it. Then the root is the container's
			// own.
			for _, parent := range []string{filepath.Join(root, parts[2]), root} {
				dir := filepath.Join(parent, name)
				if err = os.Mkdir(dir, 0o755); err != nil {
					continue
				}
				if err = set(dir); err == nil {
					return dir, nil
				}
				os.Remove(dir)
			}
		}
	}
	return "", err
}

// RunLimited runs a command in a new cgroup of [Limit], from the command's first instruction on,
// and returns its output.
func RunLimited(t testing.TB, cores float64, cmd *exec.Cmd) ([]byte, error) {
	t.Helper()
	dir := Limit(t, cores)
	// A shell puts itself into the cgroup and then becomes the command.
	cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = shell
	return cmd.CombinedOutput()
}
