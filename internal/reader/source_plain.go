//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package reader

import "os"

// A plainFile is the source on systems that map no files, such as Windows: each ReadAt reads the
// file.
type plainFile struct {
	*os.File
	size int64
}

func (p plainFile) Size() int64 { return p.size }

// regularSource returns the source of a regular file. Closing it closes f. source_mmap.go has the
// function for Unix.
func regularSource(f *os.File, size int64) (source, error) {
	return plainFile{f, size}, nil
}
