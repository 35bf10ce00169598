package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler"
)

func init() { programs["GOTACH_TEST_STOP_SOON"] = runStopSoon }

// runStopSoon prints how many of 60 short sessions take more than 300 ms to stop.
func runStopSoon() {
	go time.Sleep(time.Minute)
	late := 0
	for range 60 {
		s := profiler.Start(profiler.Output(os.Getenv("GOTACH_TEST_STOP_SOON")), profiler.Rate(10000))
		timer := time.AfterFunc(time.Minute, func() {})
		begin := time.Now()
		if s.Stop() != nil {
			os.Exit(1)
		}
		timer.Stop()
		if time.Since(begin) > 300*time.Millisecond {
			late++
		}
	}
	fmt.Print(late)
}

// Before it ends, the native source visits all goroutines once more, for 400 ms at most. One tick is mostly
// enough, also if the only goroutines that have moved lately have ended.
func TestStopSoon(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOTACH_TEST_STOP_SOON="+filepath.Join(t.TempDir(), "x.tach"), "GOCOVERDIR="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var late int
	if n, err := fmt.Sscan(string(out), &late); n != 1 || err != nil {
		t.Fatalf("%q", out)
	}
	if late > 4 { // some may be late on a busy machine
		t.Errorf("%d of 60 calls of Stop take more than 300 ms", late)
	}
}
