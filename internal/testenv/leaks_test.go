package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { MainWithoutLeaks(m) }

const leaking = "GOTACH_TEST_LEAKS"

func leak(until chan struct{}) { <-until }

// TestMainWithoutLeaks runs itself. There it leaves a goroutine, or one that ends soon.
func TestMainWithoutLeaks(t *testing.T) {
	switch os.Getenv(leaking) {
	case "forever":
		go leak(nil)
		Await(func() bool { return strings.Contains(fmt.Sprint(stacks()), "testenv.leak(") }) // it has begun
		patience = 0
		return
	case "shortly":
		end := make(chan struct{})
		go leak(end)
		go close(end)
		return
	}
	for how, fails := range map[string]bool{"forever": true, "shortly": false} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMainWithoutLeaks$")
		cmd.Env = append(os.Environ(), leaking+"="+how)
		out, err := cmd.CombinedOutput()
		if (err != nil) != fails || strings.Contains(string(out), "testenv.leak(") != fails {
			t.Errorf("%s: %v\n%s", how, err, out)
		}
	}
}

// A failing notes that a test failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestNoneLeft(t *testing.T) {
	end := make(chan struct{})
	go leak(end)
	before := Running()
	f := &failing{TB: t}
	if NoneLeft(f, before); f.failed {
		t.Error("a goroutine of before is told to be left")
	}
	second := make(chan struct{})
	go leak(second)
	defer func(as time.Duration) { patience = as }(patience)
	patience = 0
	if NoneLeft(f, before); !f.failed {
		t.Error("a goroutine is left, and nothing fails")
	}
	close(end)
	close(second)
}

var garbage []byte

func TestAllocated(t *testing.T) {
	if n := Allocated(func() { garbage = make([]byte, 1<<20); garbage = nil }); n < 1<<20 || n > 2<<20 {
		t.Errorf("Allocated = %d for a slice of 1 MB", n)
	}
}
