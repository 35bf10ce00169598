//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package reader

import "os"

// plain reads a file as it is needed.
type plain struct {
	*os.File
	size int64
}

func (p plain) Size() int64 { return p.size }

// regularSource takes over f.
func regularSource(f *os.File, size int64) (source, error) {
	return plain{f, size}, nil
}
