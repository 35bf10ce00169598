//go:build amd64 || arm64

package prefetch

import "unsafe"

// Slice prefetches the cache lines of s, at least the line of its start. This is only a
// hint: it does not wait, and it cannot fault, since the instruction ignores addresses that
// are not mapped.
func Slice[E any](s []E) {
	lines(unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(*new(E))))
}

// Value prefetches the cache lines of *p. p may be nil.
func Value[E any](p *E) {
	lines(unsafe.Pointer(p), int(unsafe.Sizeof(*p)))
}

//go:noescape
func lines(p unsafe.Pointer, n int)
