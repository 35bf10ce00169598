//go:build !linux && !darwin

package portable

import "time"

// threadTime returns false: on this system the CPU time of a thread is not known.
func threadTime() (time.Duration, bool) { return 0, false }
