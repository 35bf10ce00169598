package sampler

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
