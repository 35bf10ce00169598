package sampler

import (
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

func TestCPUStat(t *testing.T) {
	const (
		v1 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
			"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
			"34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
		v2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for _, c := range []struct {
		name, groups, mounts string
		want                 []string
	}{
		{"version 1", "3:cpuset:/a\n2:cpu,cpuacct:/b/c\n0::/\n", v1, []string{"/sys/fs/cgroup/cpu,cpuacct/b/c/cpu.stat"}},
		{"version 2", "0::/user.slice/x\n", v2, []string{"/sys/fs/cgroup/user.slice/x/cpu.stat"}},
		{"root", "0::/\n", v2, []string{"/sys/fs/cgroup/cpu.stat"}},
		{"both", "2:cpu:/b\n0::/u\n", "32 31 0:29 / /g/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /g/unified rw - cgroup2 cgroup2 rw\n",
			[]string{"/g/cpu/b/cpu.stat", "/g/unified/u/cpu.stat"}},
		{"a container's mount", "0::/docker/abc/x\n", "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", []string{"/sys/fs/cgroup/x/cpu.stat"}},
		{"a path outside of the mount", "0::/../other\n", "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", []string{"/sys/fs/cgroup/cpu.stat"}},
		{"a similar path", "0::/docker/abcd\n", "31 23 0:28 /docker/abc /c ro - cgroup2 cgroup2 rw\n", []string{"/c/cpu.stat"}},
		{"a space", "0::/\n", "31 23 0:28 / /my\\040cgroup rw - cgroup2 cgroup2 rw\n", []string{"/my cgroup/cpu.stat"}},
		{"no cgroups", "", "22 1 254:1 / / rw - ext4 /dev/root rw\n", nil},
		{"broken", "0:\n:\n\n", "31\n - cgroup2\n31 23 0:28 / /c rw - cgroup2\n", nil},
	} {
		if got := cpuStat(c.groups, c.mounts); !reflect.DeepEqual(got, c.want) {
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

// TestThrottled runs this test again in a cgroup with a quota of 0.2 cores, in which it needs a whole core.
func TestThrottled(t *testing.T) {
	if os.Getenv("GOTACH_THROTTLED") != "" {
		s, err := Start(Config{}, &forgetful{})
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		counts := s.Stats().Counts
		time.Sleep(200 * time.Millisecond)
		if s.Stats().Counts != counts {
			t.Errorf("after Stop: %+v, then %+v", counts, s.Stats().Counts)
		}
		json.NewEncoder(os.Stderr).Encode(counts)
		return
	}
	testenv.NotEmulated(t, "the test starts itself in a cgroup")
	cmd := exec.Command(os.Args[0], "-test.run=TestThrottled$")
	cmd.Env = append(os.Environ(), "GOTACH_THROTTLED=1")
	out, err := testenv.RunLimited(t, 0.2, cmd)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var counts tachyon.Counts
	if err := json.Unmarshal(out[:max(0, len(out)-len("PASS\n"))], &counts); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// In a period of 100 ms the program may run for 20 ms. On a busy machine it may get less, and then it is
	// not throttled.
	t.Logf("%+v", counts)
	if used := counts.ProcessCPU; used > 250*time.Millisecond && (counts.ThrottledPeriods < 1 || counts.Throttled < time.Millisecond) {
		t.Errorf("throttled in %d periods for %v, with %v of CPU time", counts.ThrottledPeriods, counts.Throttled, used)
	}
}

// forgetful is a sink that keeps nothing.
type forgetful struct {
	OnePart
	frames uint32
}

func (f *forgetful) Intern(tachyon.Frame) uint32                { f.frames++; return f.frames - 1 }
func (f *forgetful) WriteBatch(s []tachyon.Sample) (int, error) { return len(s), nil }
func (f *forgetful) Forget(uint64, uint32) error                { return nil }
func (f *forgetful) WriteRecords(*tachyon.Records) error        { return nil }
