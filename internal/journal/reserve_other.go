//go:build darwin || dragonfly || freebsd || netbsd

package journal

import "os"

// reserve extends a file to off+size bytes and allocates the blocks from off on.
func reserve(f *os.File, off, size int64) error { return reserveByWriting(f, off, size) }
