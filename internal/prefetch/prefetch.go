//go:build amd64 || arm64

package prefetch

import "unsafe"

// Slice asks for the cache lines that s lies in, that of its start at least. It is a hint: it
// changes nothing and does not wait. Nor can it fault: the instruction does
// nothing for an address that is not there.
func Slice[E any](s []E) {
	lines(unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(*new(E))))
}

// Value asks for the cache lines of what p points to; p may be nil.
func Value[E any](p *E) {
	lines(unsafe.Pointer(p), int(unsafe.Sizeof(*p)))
}

//go:noescape
func lines(p unsafe.Pointer, n int)
