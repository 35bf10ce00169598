//go:build !race

package nytprof

const raceEnabled = false
