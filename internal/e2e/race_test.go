//go:build race

package e2e

// slowed is true with the race detector. Then programs are ten times as slow, so tests do not check times.
const slowed = true
