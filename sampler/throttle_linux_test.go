package sampler

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/testenv"
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
		if got := cpuGroups(c.groups, c.mounts); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReadCPUStat(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"nr_periods 9\nnr_throttled 7\nthrottled_time 5000\n":                         5 * time.Microsecond,
		"usage_usec 1\nnr_periods 9\nnr_throttled 7\nthrottled_usec 5\nnr_bursts 0\n": 5 * time.Microsecond,
	} {
		if periods, d := readCPUStat(text); periods != 7 || d != want {
			t.Errorf("%q: %d periods, %v", text, periods, d)
		}
	}
	if periods, d := readCPUStat("usage_usec 1\nnr_throttled x\n\n"); periods != 0 || d != 0 {
		t.Errorf("%d periods, %v", periods, d)
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
		check := func(when string, periods int64, d time.Duration) {
			t.Helper()
			if c := s.Stats().Counts; c.ThrottledPeriods != periods || c.Throttled != d {
				t.Errorf("%s: %d periods, %v", when, c.ThrottledPeriods, c.Throttled)
			}
		}
		throttled(10, time.Second)
		check("at the start", 0, 0)
		throttled(12, 3*time.Second)
		time.Sleep(keepReading)
		check("after a second", 0, 0)
		time.Sleep(time.Nanosecond)
		check("after more than a second", 2, 2*time.Second)
		throttled(13, 4*time.Second)
		close(s.quit)
		s.watch()
		throttled(20, 9*time.Second)
		time.Sleep(time.Hour)
		check("at the end", 3, 3*time.Second)
	})
	for name, l := range map[string]*throttling{"no file": {}, "removed": {file: "/no/such/file"}, "counts that fell": {file: "/proc/self/status", periods: 9, time: 9}} {
		if periods, d := l.since(); periods != 0 || d != 0 {
			t.Errorf("%s: %d periods, %v", name, periods, d)
		}
	}
}
