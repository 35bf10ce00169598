//go:build amd64 || arm64

package prefetch

import "unsafe"

// Slice fetches the cache lines of s, at least that of its start. It is a hint: it
// changes nothing, does not wait, and cannot fault, since the instruction ignores
// addresses that are not mapped.
func Slice[E any](s []E) {
	lines(unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(*new(E))))
}

// Value fetches the cache lines of *p. p may be nil.
func Value[E any](p *E) {
	lines(unsafe.Pointer(p), int(unsafe.Sizeof(*p)))
}

//go:noescape
func lines(p unsafe.Pointer, n int)
