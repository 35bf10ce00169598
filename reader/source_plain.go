//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package reader

import "os"

// A plain source reads the file when it is needed.
type plain struct {
	*os.File
	size int64
}

func (p plain) Size() int64 { return p.size }

// regularSource returns f, which it then owns.
func regularSource(f *os.File, size int64) (source, error) {
	return plain{f, size}, nil
}
