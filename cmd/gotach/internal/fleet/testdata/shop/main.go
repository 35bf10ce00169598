// Command shop is the profiled program of TestPeerContainers. It calculates on two cores until the quota has kept it from running
// for a second, however long that takes on a busy machine. Then it prints for how many ns that was.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/gotach/profiler/auto"
)

func main() {
	// At least three seconds, so that the file is rotated; at most a minute, if there is no quota. What starts the program is
	// kept from running too.
	begin, already := time.Now(), throttled()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for took := time.Duration(0); took < 3*time.Second || took < time.Minute && throttled()-already < time.Second; took = time.Since(begin) {
				for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
				}
			}
		})
	}
	all.Wait()
	fmt.Println(int64(throttled() - already))
}

// throttled returns for how long the container's quota has kept it from running.
func throttled() time.Duration {
	for _, path := range []string{"/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/cpu.stat"} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), " ")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch name {
			case "throttled_usec":
				return time.Duration(n) * time.Microsecond
			case "throttled_time":
				return time.Duration(n)
			}
		}
	}
	return 0
}
