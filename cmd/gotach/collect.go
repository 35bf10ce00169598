package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// firstCollection is how much memory, in bytes, the command may take before it collects garbage
	// for the first time. A report of a minute of a busy server needs less; collecting would be a
	// fifth of its time.
	firstCollection = 80 << 20
	// laterPercent is GOGC after that. Reading allocates little, but keeps much for a while, so a
	// small heap costs large profiles no time.
	laterPercent = 25
)

// collectLate sets when garbage is collected, unless GOGC or GOMEMLIMIT say it.
func collectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(firstCollection)
	sentinel := new([16]byte)
	runtime.AddCleanup(sentinel, func(struct{}) {
		debug.SetGCPercent(laterPercent)
		debug.SetMemoryLimit(math.MaxInt64)
	}, struct{}{})
}
