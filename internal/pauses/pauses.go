// Package pauses counts how often the program has been stopped, for tests and
// benchmarks of profilers: fgprof stops it twice a tick, the native source never.
package pauses

import "runtime/metrics"

// Count returns how often the world was stopped so far for other reasons than
// garbage collection.
func Count() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/pauses/total/other:seconds"}} // since Go 1.22
	metrics.Read(s)
	for _, c := range s[0].Value.Float64Histogram().Counts {
		n += c
	}
	return n
}
