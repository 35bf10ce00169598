package testenv

import "runtime/metrics"

// Pauses returns how often the world has been stopped so far, except for garbage
// collection. fgprof stops it twice a tick, the native source never.
func Pauses() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/pauses/total/other:seconds"}} // since Go 1.22
	metrics.Read(s)
	for _, c := range s[0].Value.Float64Histogram().Counts {
		n += c
	}
	return n
}
