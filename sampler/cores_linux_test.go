package sampler

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
)

// The quota of a cgroup, or of one that it is in, is less than GOMAXPROCS. A change counts after keepLimit.
func TestCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"none":                 {nil, 2},
		"version 2":            {map[string]string{"a/b/cpu.max": "25000 100000\n"}, 0.25},
		"version 2, no quota":  {map[string]string{"a/b/cpu.max": "max 100000\n"}, 2},
		"more than GOMAXPROCS": {map[string]string{"a/b/cpu.max": "800000 100000\n"}, 2},
		"of the parent":        {map[string]string{"a/b/cpu.max": "150000 100000\n", "a/cpu.max": "50000 100000\n"}, 0.5},
		"of the mount":         {map[string]string{"cpu.max": "150000 100000\n"}, 1.5},
		"version 1":            {map[string]string{"a/b/cpu.cfs_quota_us": "20000\n", "a/b/cpu.cfs_period_us": "100000\n"}, 0.2},
		"version 1, no quota":  {map[string]string{"a/b/cpu.cfs_quota_us": "-1\n", "a/b/cpu.cfs_period_us": "100000\n"}, 2},
		"broken":               {map[string]string{"a/b/cpu.max": "x y\n", "a/cpu.max": "1\n", "cpu.max": "5 0\n"}, 2},
	} {
		mount := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(mount, file)
			testenv.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
			testenv.OK(t, os.WriteFile(file, []byte(text), 0o600))
		}
		limits := &throttling{groups: []cpuGroup{{mount, "/a/b"}}}
		if got, most := limits.cores(), float64(runtime.NumCPU()); got != min(c.want, most) {
			t.Errorf("%s: %v cores, want %v", name, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		mount := t.TempDir()
		limits := &throttling{groups: []cpuGroup{{mount, ""}}}
		for _, c := range []struct {
			file  string
			after time.Duration
			want  float64
		}{{"25000 100000", 0, 0.25}, {"50000 100000", keepLimit, 0.25}, {"50000 100000", 1, 0.5}, {"10000 100000", time.Hour, 0.1}} {
			testenv.OK(t, os.WriteFile(filepath.Join(mount, "cpu.max"), []byte(c.file), 0o600))
			time.Sleep(c.after)
			if got := limits.cores(); got != c.want {
				t.Errorf("%s after %v: %v cores, want %v", c.file, c.after, got, c.want)
			}
		}
	})
}

// A process on one core may use one, whatever GOMAXPROCS is.
func TestAffinity(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var all, one unix.CPUSet
	testenv.OK(t, unix.SchedGetaffinity(os.Getpid(), &all))
	for i := range 1 << 10 {
		if all.IsSet(i) {
			one.Set(i)
			break
		}
	}
	testenv.OK(t, unix.SchedSetaffinity(os.Getpid(), &one))
	defer unix.SchedSetaffinity(os.Getpid(), &all)
	if got := new(throttling).cores(); got != 1 {
		t.Errorf("%v cores", got)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	testenv.OK(t, unix.SchedSetaffinity(os.Getpid(), &all))
	want := min(float64(all.Count()), allowed(os.Getpid(), cpuGroupsOf("/proc/self")))
	if got := CPUs(os.Getpid()); got != want {
		t.Errorf("%v CPUs, want %v: GOMAXPROCS does not count", got, want)
	}
	if got := CPUs(1 << 30); got != 0 {
		t.Errorf("%v CPUs of a process that there is not", got)
	}
}
