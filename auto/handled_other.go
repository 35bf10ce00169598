//go:build unix && !linux

package auto

import "syscall"

// handledElsewhere returns known = false: without /proc/self/mem the counters of
// os/signal cannot be read.
func handledElsewhere(syscall.Signal) (handled, known bool) { return false, false }
