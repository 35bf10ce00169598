package sampler

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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
