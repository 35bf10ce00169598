// Command shop is the profiled program of TestContainers. It calculates on two cores for three seconds, as far as it gets
// them.
package main

import (
	"sync"
	"time"

	_ "github.com/gotach/profiler/auto"
)

func main() {
	end := time.Now().Add(3 * time.Second)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
			}
		})
	}
	all.Wait()
}
