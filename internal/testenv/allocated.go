package testenv

import "runtime"

// Allocated returns the number of bytes allocated while f runs, including garbage and
// the allocations of other goroutines. Tests of readers use it: a reader's memory must
// be bounded by a multiple of the file's size, whatever counts and sizes the file claims.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
