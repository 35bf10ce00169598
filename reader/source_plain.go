//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package reader

import "os"

// A plain source reads the file in each call of ReadAt.
type plain struct {
	*os.File
	size int64
}

func (p plain) Size() int64 { return p.size }

// regularSource returns a source that owns f.
func regularSource(f *os.File, size int64) (source, error) {
	return plain{f, size}, nil
}
