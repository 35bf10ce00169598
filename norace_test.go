//go:build !race

package profiler

const slowed = false
