//go:build !amd64 && !arm64

package prefetch

// Slice does nothing here.
func Slice[E any]([]E) {}

// Value does nothing here.
func Value[E any](*E) {}
