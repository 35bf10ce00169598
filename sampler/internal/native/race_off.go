//go:build !race && linux && (amd64 || arm64)

package native

// instrumented is for builds with -race.
func instrumented() bool { return false }
