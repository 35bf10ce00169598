//go:build !linux

package deadlock

// Possible returns false: on this system the state of threads cannot be read.
func Possible() bool { return false }

// Confirm is not called.
func Confirm() Verdict { return Unclear }
