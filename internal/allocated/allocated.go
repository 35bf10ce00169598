// Package allocated measures what code allocates, for tests of readers: nothing
// that a file claims may cost memory beyond a multiple of the file's size.
package allocated

import "runtime"

// By returns how many bytes f allocates, garbage included. Those of other
// goroutines meanwhile count too.
func By(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
