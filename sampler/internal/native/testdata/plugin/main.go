// Command plugin is what pluginprog loads.
package main

import "sync/atomic"

// Spin works until it is told to stop.
//
//go:noinline
func Spin(stop *atomic.Bool) (n int) {
	for !stop.Load() {
		for i := range 1000 {
			n += twice(i)
		}
		n += count(n)
	}
	return n
}

// twice is inlined.
func twice(i int) int { return 2*i + i%977%31 }

//go:noinline
func count(n int) int {
	for i := range 3000 {
		n ^= twice(i)
	}
	return n
}

// Wait waits.
//
//go:noinline
func Wait(c chan bool) { <-c }

func main() {}
