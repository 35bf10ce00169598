//go:build race

package e2e

// slowed is whether the race detector makes everything ten times as slow, so that
// times mean nothing.
const slowed = true
