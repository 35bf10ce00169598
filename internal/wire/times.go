package wire

import (
	"fmt"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// CheckTime returns an error if a time or a length in µs is beyond tachyon.MaxTime.
func CheckTime(what string, us uint64) error {
	if us > tachyon.MaxTime {
		return fmt.Errorf("%s of %d µs is beyond the limit of %d", what, us, uint64(tachyon.MaxTime))
	}
	return nil
}

// far reports whether a time since the start, which may be before it, is beyond tachyon.MaxTime.
func far(us uint64) bool { return us+tachyon.MaxTime > 2*tachyon.MaxTime }

// CheckGoroutine returns an error if a time of a goroutine is beyond tachyon.MaxTime.
func CheckGoroutine(g *tachyon.Goroutine) error {
	bad := far(g.First) || far(g.Last) || g.FirstWeight > tachyon.MaxTime
	for i := range g.Labels {
		bad = bad || far(g.Labels[i].From)
	}
	if bad {
		return fmt.Errorf("a time of goroutine %d is beyond the limit of %d µs", g.ID, uint64(tachyon.MaxTime))
	}
	return nil
}

// CheckStops returns an error if stops are those of a time beyond tachyon.MaxTime, are as many, or are not in order.
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

// CheckSession returns an error if the length of a session is negative or beyond tachyon.MaxTime.
func CheckSession(s *tachyon.Session) error {
	if s.Duration < 0 || s.Duration > tachyon.MaxTime*time.Microsecond {
		return fmt.Errorf("the session's duration of %d ns is not between 0 and %d µs", s.Duration, uint64(tachyon.MaxTime))
	}
	return nil
}
