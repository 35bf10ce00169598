package testenv

import "runtime"

// Allocated returns how many bytes f allocates, including garbage and what other
// goroutines allocate meanwhile. Tests of readers use it: a claim in a file must
// not cost memory beyond a multiple of the file's size.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
