//go:build !linux

package sampler

import (
	"runtime"
	"time"
)

// throttling is for systems with cgroups only.
type throttling struct{}

func newThrottling() *throttling { return &throttling{} }

func (*throttling) since() (periods int64, d time.Duration) { return 0, 0 }

// cores returns how many cores the process may use.
func (*throttling) cores() float64 { return float64(runtime.GOMAXPROCS(0)) }

// CPUs returns how many CPUs this process may use.
func CPUs(int) float64 { return float64(runtime.NumCPU()) }

func (*throttling) recent() (periods int64, d time.Duration) { return 0, 0 }
