//go:build darwin || dragonfly || freebsd || netbsd

package journal

import "os"

// reserve makes a file longer and gives it the blocks for that.
func reserve(f *os.File, off, size int64) error { return reserveByWriting(f, off, size) }
