//go:build unix && !linux

package auto

import "syscall"

// handledElsewhere: only Linux shows which signals os/signal still waits for.
func handledElsewhere(syscall.Signal) (handled, known bool) { return false, false }
