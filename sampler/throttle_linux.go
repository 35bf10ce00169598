package sampler

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// throttling is what the process's cgroup says of its CPU time. A cgroup with a CPU quota is
// throttled when it has used the quota of a period: the kernel runs none of its threads until the
// next period.
type throttling struct {
	groups  []cpuGroup
	file    string        // with the counts; "": there is none
	periods int64         // in which it was throttled, up to the start of the session
	time    time.Duration // for which threads had to wait then

	mu          sync.Mutex // guards what follows
	read        time.Time  // when the next two were read; both count from the start of the session
	lastPeriods int64
	lastTime    time.Duration
	limited     time.Time // when limit was read
	limit       float64   // cores, by quota and affinity
}

// keepReading is how long a reading of the cgroup's counts is used. The counts of a session are
// asked for ten times a second, and the kernel may add up all of the cgroup's cores for each
// reading.
const keepReading = time.Second

// recent returns the counts since the start of the session as they were at most keepReading ago.
func (t *throttling) recent() (periods int64, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read.IsZero() || time.Since(t.read) > keepReading {
		t.lastPeriods, t.lastTime = t.since()
		t.read = time.Now()
	}
	return t.lastPeriods, t.lastTime
}

// newThrottling finds the cgroup. The process may have no cgroup with a quota, or see no cgroups.
func newThrottling() *throttling {
	t := &throttling{groups: cpuGroupsOf("/proc/self")}
	for _, g := range t.groups {
		file := filepath.Join(g.mount, g.below, "cpu.stat")
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte("nr_throttled")) {
			t.file = file
			t.periods, t.time = readCPUStat(string(b))
			break
		}
	}
	return t
}

// cpuGroupsOf returns where the files of a process's cgroup can be. proc is the process's folder.
func cpuGroupsOf(proc string) []cpuGroup {
	groups, err := os.ReadFile(proc + "/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return cpuGroups(string(groups), string(mounts))
}

// since returns the counts since the start of the session.
func (t *throttling) since() (periods int64, d time.Duration) {
	if t.file == "" {
		return 0, 0
	}
	b, err := os.ReadFile(t.file)
	if err != nil {
		return 0, 0 // the cgroup has been removed
	}
	periods, d = readCPUStat(string(b))
	return max(0, periods-t.periods), max(0, d-t.time)
}

// A cpuGroup is where the files of the process's cgroup can be. below is its path from the mount
// on.
type cpuGroup struct{ mount, below string }

// cpuGroups returns these places, from the texts of /proc/self/cgroup and /proc/self/mountinfo.
func cpuGroups(groups, mounts string) (list []cpuGroup) {
	for line := range strings.Lines(mounts) {
		// ID parent major:minor root mountpoint options … - type source superoptions
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields, about := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(about) < 3 {
			continue
		}
		for group := range strings.Lines(groups) {
			// hierarchy:controllers:path
			parts := strings.SplitN(strings.TrimSpace(group), ":", 3)
			if len(parts) != 3 {
				continue
			}
			switch about[0] {
			case "cgroup2":
				if parts[1] != "" {
					continue
				}
			case "cgroup":
				if !slices.Contains(strings.Split(parts[1], ","), "cpu") || !slices.Contains(strings.Split(about[2], ","), "cpu") {
					continue
				}
			default:
				continue
			}
			// In a container the mount can be of the container's cgroup, and the path that
			// outside of it.
			root, at := unescape(fields[3]), unescape(fields[4])
			below, ok := strings.CutPrefix(parts[2], strings.TrimSuffix(root, "/"))
			if !ok || below != "" && below[0] != '/' {
				below = ""
			}
			list = append(list, cpuGroup{at, below})
		}
	}
	return list
}

// unescape replaces the escapes of mountinfo for spaces and the like.
func unescape(s string) string {
	for i := 0; i+4 <= len(s); i++ {
		if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); s[i] == '\\' && err == nil {
			s = s[:i] + string([]byte{byte(n)}) + s[i+4:]
		}
	}
	return s
}

// readCPUStat reads the counts of a cpu.stat, of either version of cgroups.
func readCPUStat(text string) (periods int64, d time.Duration) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "nr_throttled":
			periods = n
		case "throttled_time": // version 1, ns
			d = time.Duration(n)
		case "throttled_usec": // version 2
			d = time.Duration(n) * time.Microsecond
		}
	}
	return periods, d
}

// keepLimit is how long a reading of quota and affinity is used. They rarely change while a program
// runs.
const keepLimit = 5 * time.Second

// cores returns how many cores the process may use: GOMAXPROCS, or the quota of a cgroup or the
// affinity of the main thread, if these are less. GOMAXPROCS alone is too much in a small
// container, because Go never sets it below 2.
func (t *throttling) cores() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limited.IsZero() || time.Since(t.limited) > keepLimit {
		t.limit, t.limited = allowed(os.Getpid(), t.groups), time.Now()
	}
	return min(t.limit, float64(runtime.GOMAXPROCS(0)))
}

// CPUs returns how many CPUs a process may use, by the quota of its cgroups and the affinity of its
// main thread, 0 if that is not known.
func CPUs(pid int) float64 {
	proc := "/proc/self"
	if pid != os.Getpid() {
		proc = "/proc/" + strconv.Itoa(pid)
	}
	limit := allowed(pid, cpuGroupsOf(proc))
	if math.IsInf(limit, 1) {
		return 0
	}
	return limit
}

// allowed returns the least of the quotas of cgroups and the affinity of a process, infinite if
// there is none.
func allowed(pid int, groups []cpuGroup) float64 {
	limit := math.Inf(1)
	for _, g := range groups {
		limit = min(limit, g.quota())
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(pid, &set) == nil && set.Count() > 0 {
		limit = min(limit, float64(set.Count()))
	}
	return limit
}

// quota returns the least quota of a cgroup and those that it is in, in cores, as far as the
// process sees them. It is infinite if there is none.
func (g cpuGroup) quota() float64 {
	least := math.Inf(1)
	for below := filepath.Join("/", g.below); ; below = filepath.Dir(below) {
		text := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(g.mount, below, name))
			return string(b)
		}
		quota := text("cpu.max")
		if quota == "" { // version 1
			quota = text("cpu.cfs_quota_us") + " " + text("cpu.cfs_period_us")
		}
		least = min(least, readQuota(quota))
		if below == "/" {
			return least
		}
	}
}

// readQuota reads a cpu.max, or quota and period of version 1: "25000 100000" is a quarter of a
// core. Without a quota there is "max" or -1 in its place.
func readQuota(text string) float64 {
	if f := strings.Fields(text); len(f) == 2 {
		quota, err := strconv.ParseFloat(f[0], 64)
		period, err2 := strconv.ParseFloat(f[1], 64)
		if err == nil && err2 == nil && quota > 0 && period > 0 {
			return quota / period
		}
	}
	return math.Inf(1)
}
