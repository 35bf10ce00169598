//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package reader

import "os"

// A plainFile source reads the file in each call of ReadAt.
type plainFile struct {
	*os.File
	size int64
}

func (p plainFile) Size() int64 { return p.size }

// regularSource returns a source that owns f.
func regularSource(f *os.File, size int64) (source, error) {
	return plainFile{f, size}, nil
}
