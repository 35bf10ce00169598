//go:build !windows

package portable

import "time"

var epoch = time.Now()

// wallTime returns the time of a clock that can measure one look.
func wallTime() time.Duration { return time.Since(epoch) }
