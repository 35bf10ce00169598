//go:build peers

package sampler

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// TestPeerThrottled runs this test again in a cgroup with a quota of 0.2 cores: so many it may use. It needs a whole core until
// it has been throttled. It needs root.
func TestPeerThrottled(t *testing.T) {
	if os.Getenv("GOTACH_THROTTLED") != "" {
		s := testenv.Must(Start(Config{Source: Portable}, &memory{}))
		for begin := time.Now(); s.Stats().ThrottledPeriods == 0 && time.Since(begin) < time.Minute; {
		}
		stop(t, s)
		fmt.Println(newThrottling().cores(), s.Stats().ThrottledPeriods, int64(s.Stats().Throttled))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestPeerThrottled$")
	cmd.Env = append(os.Environ(), "GOTACH_THROTTLED=1")
	out, err := testenv.RunLimited(t, 0.2, cmd)
	var cores float64
	var periods, throttled int64
	_, e := fmt.Sscan(string(out), &cores, &periods, &throttled)
	testenv.FailIf(t, err != nil || e != nil || cores != 0.2 || periods < 1 || throttled <= 0, "%v, %v: %s", err, e, out)
}
