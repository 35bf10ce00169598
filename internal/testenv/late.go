package testenv

import "time"

// Late measures how late the machine wakes goroutines, until longest is called. longest returns the
// longest delay. It must be called once.
func Late() (longest func() time.Duration) {
	quit, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			before := time.Now()
			select {
			case <-quit:
				result <- most
				return
			case <-time.After(time.Millisecond):
				most = max(most, time.Since(before)-time.Millisecond)
			}
		}
	}()
	return func() time.Duration { close(quit); return <-result }
}
