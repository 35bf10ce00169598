package testenv

import "runtime"

// Bounded fails the test if f allocates more than a number of bytes.
func Bounded(t test, most int, f func()) {
	if n := Allocated(f); n > uint64(most) {
		t.Helper()
		t.Errorf("%d bytes allocated, want at most %d", n, most)
	}
}

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
