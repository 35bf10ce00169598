package sampler

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestCPUGroups(t *testing.T) {
	const (
		v1 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
			"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
			"34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
		v2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for _, c := range []struct {
		name, groups, mounts string
		want                 []cpuGroup
	}{
		{"version 1", "3:cpuset:/a\n2:cpu,cpuacct:/b/c\n0::/\n", v1, []cpuGroup{{"/sys/fs/cgroup/cpu,cpuacct", "/b/c"}}},
		{"version 2", "0::/user.slice/x\n", v2, []cpuGroup{{"/sys/fs/cgroup", "/user.slice/x"}}},
		{"root", "0::/\n", v2, []cpuGroup{{"/sys/fs/cgroup", "/"}}},
		{"both", "2:cpu:/b\n0::/u\n", "32 31 0:29 / /g/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /g/unified rw - cgroup2 cgroup2 rw\n",
			[]cpuGroup{{"/g/cpu", "/b"}, {"/g/unified", "/u"}}},
		{"a container's mount", "0::/docker/abc/x\n", "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", []cpuGroup{{"/sys/fs/cgroup", "/x"}}},
		{"a path outside of the mount", "0::/../other\n", "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", []cpuGroup{{"/sys/fs/cgroup", ""}}},
		{"a similar path", "0::/docker/abcd\n", "31 23 0:28 /docker/abc /c ro - cgroup2 cgroup2 rw\n", []cpuGroup{{"/c", ""}}},
		{"a space", "0::/\n", "31 23 0:28 / /my\\040cgroup rw - cgroup2 cgroup2 rw\n", []cpuGroup{{"/my cgroup", "/"}}},
		{"no cgroups", "", "22 1 254:1 / / rw - ext4 /dev/root rw\n", nil},
		{"broken", "0:\n:\n\n", "31\n - cgroup2\n31 23 0:28 / /c rw - cgroup2\n", nil},
	} {
		testenv.SameList(t, c.name, cpuGroups(c.groups, c.mounts), c.want)
	}
}

func TestReadCPUStat(t *testing.T) {
	for text, want := range map[string]string{
		"nr_periods 9\nnr_throttled 7\nthrottled_time 5000\n":                         "7 5µs",
		"usage_usec 1\nnr_periods 9\nnr_throttled 7\nthrottled_usec 5\nnr_bursts 0\n": "7 5µs",
		"usage_usec 1\nnr_throttled x\n\n":                                            "0 0s",
	} {
		periods, d := readCPUStat(text)
		testenv.Prints(t, text, want, periods, d)
	}
}

// TestThrottled has a session whose cgroup is throttled. Its counts are those since its start. They are read once a
// second at most while it runs, and stay the same after its end.
func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "cpu.stat")
		throttled := func(periods int, d time.Duration) {
			text := fmt.Sprintf("nr_throttled %d\nthrottled_usec %d\n", periods, d.Microseconds())
			testenv.OK(t, os.WriteFile(file, []byte(text), 0o600))
		}
		s := &Sampler{limits: &throttling{file: file, periods: 10, time: time.Second}, quit: make(chan struct{}), stopped: make(chan struct{})}
		s.src, s.out = &scripted{}, newRecorder(&memory{}, time.Now(), 1000)
		check := func(when, want string) {
			t.Helper()
			c := s.Stats().Counts
			testenv.Prints(t, when, want, c.ThrottledPeriods, c.Throttled)
		}
		throttled(10, time.Second)
		check("at the start", "0 0s")
		throttled(12, 3*time.Second)
		time.Sleep(keepReading)
		check("after a second", "0 0s")
		time.Sleep(time.Nanosecond)
		check("after more than a second", "2 2s")
		throttled(13, 4*time.Second)
		close(s.quit)
		s.watch()
		throttled(20, 9*time.Second)
		time.Sleep(time.Hour)
		check("at the end", "3 3s")
	})
	for name, l := range map[string]*throttling{"no file": {}, "removed": {file: "/no/such/file"}, "counts that fell": {file: "/proc/self/status", periods: 9, time: 9}} {
		periods, d := l.since()
		testenv.Prints(t, name, "0 0s", periods, d)
	}
}

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
		testenv.Same(t, name, limits.cores(), min(c.want, float64(runtime.NumCPU())))
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
			testenv.Same(t, fmt.Sprintf("%s after %v", c.file, c.after), limits.cores(), c.want)
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
	testenv.Same(t, "cores", new(throttling).cores(), 1)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	testenv.OK(t, unix.SchedSetaffinity(os.Getpid(), &all))
	want := min(float64(all.Count()), allowed(os.Getpid(), cpuGroupsOf("/proc/self")))
	testenv.Same(t, "CPUs, of which GOMAXPROCS is none", CPUs(os.Getpid()), want)
	testenv.Same(t, "CPUs of a process that there is not", CPUs(1<<30), 0)
}
