//go:build !linux

package portable

import "time"

// threadTime says that the CPU time of a thread is not known here.
func threadTime() (time.Duration, bool) { return 0, false }
