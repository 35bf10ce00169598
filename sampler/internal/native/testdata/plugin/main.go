// Command plugin is the plugin that pluginprog loads.
package main

import "sync/atomic"

// Spin uses the CPU until stop is true.
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

// twice is so small that the compiler inlines it.
func twice(i int) int { return 2*i + i%977%31 }

//go:noinline
func count(n int) int {
	for i := range 3000 {
		n ^= twice(i)
	}
	return n
}

// Wait receives from c.
//
//go:noinline
func Wait(c chan bool) { <-c }

func main() {}
