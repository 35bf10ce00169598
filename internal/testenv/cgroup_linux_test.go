//go:build peers

package testenv

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestPeerRunLimited runs a program that needs the CPU, with a quota of 0.2 cores.
func TestPeerRunLimited(t *testing.T) {
	if os.Getenv("GOTACH_LIMITED") != "" {
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestPeerRunLimited$")
	cmd.Env = append(os.Environ(), "GOTACH_LIMITED=1")
	out, err := RunLimited(t, 0.2, cmd)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The quota is for periods of 100 ms, so a process that begins or ends in a period can have it twice.
	if cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); cpu > 500*time.Millisecond {
		t.Errorf("the process used the CPU for %v in a second", cpu)
	}
}
