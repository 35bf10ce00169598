package formats

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: half of the time is a pause, but there is none for less than 200 µs of work, and none is longer than 10 ms.
func TestPace(t *testing.T) {
	for work, whole := range map[time.Duration]time.Duration{
		60 * time.Microsecond: 60 * time.Microsecond,
		2 * time.Millisecond:  4 * time.Millisecond,
		50 * time.Millisecond: 60 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, pause := time.Now(), Pace()
			for range 3 {
				time.Sleep(work)
				pause()
			}
			if got := time.Since(begin); got != 3*whole {
				t.Errorf("three times %v of work take %v, want %v", work, got, 3*whole)
			}
		})
	}
}
