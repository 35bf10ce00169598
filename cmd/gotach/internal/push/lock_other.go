//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package push

import "os"

// lock does nothing: this system has no flock. Nobody notices two processes that send one
// directory.
func lock(*os.File) error { return nil }
