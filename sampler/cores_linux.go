package sampler

import (
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keepLimit is how long a reading of quota and affinity is used. They rarely change while a program runs.
const keepLimit = 5 * time.Second

// cores returns how many cores the process may use: GOMAXPROCS, or the quota of a cgroup or the affinity of the main
// thread, if these are less. GOMAXPROCS alone is too much in a small container, because Go never sets it below 2.
func (t *throttling) cores() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limited.IsZero() || time.Since(t.limited) > keepLimit {
		t.limit, t.limited = math.Inf(1), time.Now()
		for _, g := range t.groups {
			t.limit = min(t.limit, g.quota())
		}
		var set unix.CPUSet
		if unix.SchedGetaffinity(os.Getpid(), &set) == nil && set.Count() > 0 {
			t.limit = min(t.limit, float64(set.Count()))
		}
	}
	return min(t.limit, float64(runtime.GOMAXPROCS(0)))
}

// quota returns the least quota of a cgroup and those that it is in, in cores, as far as the process sees them. It is
// infinite if there is none.
func (g cpuGroup) quota() float64 {
	least := math.Inf(1)
	for below := path.Join("/", g.below); ; below = path.Dir(below) {
		text := func(name string) string {
			b, _ := os.ReadFile(path.Join(g.mount, below, name))
			return string(b)
		}
		max := text("cpu.max")
		if max == "" { // version 1
			max = text("cpu.cfs_quota_us") + " " + text("cpu.cfs_period_us")
		}
		least = min(least, readQuota(max))
		if below == "/" {
			return least
		}
	}
}

// readQuota reads a cpu.max, or quota and period of version 1: "25000 100000" is a quarter of a core. Without a quota there is
// "max" or -1 in its place.
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
