package wire

import (
	"fmt"

	"github.com/gotach/profiler/tachyon"
)

// CheckTime returns an error if a time or a length in µs is beyond tachyon.MaxTime.
func CheckTime(what string, us uint64) error {
	if us > tachyon.MaxTime {
		return fmt.Errorf("%s of %d µs is beyond the limit of %d", what, us, uint64(tachyon.MaxTime))
	}
	return nil
}

// CheckStops returns an error if the time or a number of stops is beyond tachyon.MaxTime, or if the
// ids do not ascend.
func CheckStops(s *tachyon.Stops) error {
	last := uint64(0)
	for i := range s.List {
		g := &s.List[i]
		if g.N > tachyon.MaxTime || i > 0 && g.ID <= last {
			return fmt.Errorf("stops of goroutine %d: %d, after goroutine %d", g.ID, g.N, last)
		}
		last = g.ID
	}
	return CheckTime("stops until", s.Until)
}
