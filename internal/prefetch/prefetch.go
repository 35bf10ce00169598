//go:build amd64 || arm64

package prefetch

// Uint32 asks for the cache line that p is in. It is a hint: it changes nothing,
// does not wait, and cannot fault, whatever p is.
//
//go:noescape
func Uint32(p *uint32)
