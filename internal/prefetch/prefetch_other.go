//go:build !amd64 && !arm64

package prefetch

// Uint32 does nothing here.
func Uint32(*uint32) {}
