// Package harmed has tests with other results when they are profiled.
package harmed

import (
	"os"
	"syscall"
	"testing"
	"time"
)

var profiled = os.Getenv("PROFILE_OUT") != ""

func TestMain(m *testing.M) {
	os.Exit(m.Run()) // as many packages' do
}

func TestWell(t *testing.T) { time.Sleep(50 * time.Millisecond) }

func TestFails(t *testing.T) {
	if profiled {
		t.Fail()
	}
}

func TestVanishes(t *testing.T) {
	if !profiled {
		t.Run("part", func(t *testing.T) {})
	}
}

func TestEnds(t *testing.T) {
	if profiled {
		os.Exit(3)
	}
}

func TestDies(t *testing.T) {
	if profiled {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		time.Sleep(time.Minute)
	}
}

func TestHangs(t *testing.T) {
	if profiled {
		time.Sleep(time.Hour)
	}
}

func TestComplains(t *testing.T) {
	if profiled {
		_, _ = os.Stderr.WriteString("level=WARN msg=\"gotach: no profile is being taken\"\n")
	}
}
