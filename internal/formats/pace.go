package formats

import "time"

// Pace returns a function for work inside a service, which calls it after each small piece. It sleeps for half of the time. Otherwise a
// conversion computes for a whole time slice, 10 ms, again and again: with few cores the service's requests wait for its end, as they do
// beside any handler that computes. A measurement in httpprof has the figures.
func Pace() func() {
	const least, most = 200 * time.Microsecond, 10 * time.Millisecond
	begin := time.Now()
	return func() {
		if worked := time.Since(begin); worked >= least {
			time.Sleep(min(worked, most))
			begin = time.Now()
		}
	}
}
