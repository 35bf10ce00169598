//go:build !linux

package sampler

import "time"

// throttling is for systems with cgroups only.
type throttling struct{}

func newThrottling() *throttling { return &throttling{} }

func (*throttling) since() (periods int64, d time.Duration) { return 0, 0 }

func (*throttling) recent() (periods int64, d time.Duration) { return 0, 0 }
