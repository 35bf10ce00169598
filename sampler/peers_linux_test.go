//go:build peers

package sampler

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// TestPeerQuota runs this test again in a cgroup with a quota of a quarter of a core, and lets it print how many cores it may use. It
// needs root.
func TestPeerQuota(t *testing.T) {
	if os.Getenv("GOTACH_QUOTA") != "" {
		fmt.Print(newThrottling().cores(), " ")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestPeerQuota$")
	cmd.Env = append(os.Environ(), "GOTACH_QUOTA=1")
	if out, err := testenv.RunLimited(t, 0.25, cmd); err != nil || string(out) != "0.25 PASS\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestPeerThrottled runs this test again in a cgroup with a quota of 0.2 cores, in which it needs a whole core until
// it has been throttled. It needs root.
func TestPeerThrottled(t *testing.T) {
	if os.Getenv("GOTACH_THROTTLED") != "" {
		s := testenv.Must(Start(Config{Source: Portable}, &memory{}))
		for begin := time.Now(); s.Stats().ThrottledPeriods == 0 && time.Since(begin) < time.Minute; {
		}
		stop(t, s)
		testenv.OK(t, json.NewEncoder(os.Stderr).Encode(s.Stats().Counts))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestPeerThrottled$")
	cmd.Env = append(os.Environ(), "GOTACH_THROTTLED=1")
	out, err := testenv.RunLimited(t, 0.2, cmd)
	var counts tachyon.Counts
	if err := json.Unmarshal(out[:max(0, len(out)-len("PASS\n"))], &counts); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err != nil || counts.ThrottledPeriods < 1 || counts.Throttled <= 0 {
		t.Errorf("%v, %+v", err, counts)
	}
}
