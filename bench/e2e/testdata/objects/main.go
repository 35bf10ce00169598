// Command objects has goroutines that wait for locks in variables. With the argument "wait" it goes on until it is
// killed.
package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gotach/profiler"
)

var (
	alone  sync.Mutex
	server struct {
		hits [3]uint64
		lock sync.RWMutex
	}
	shards [64]struct {
		n    int
		lock sync.Mutex
	}
)

func main() {
	s, err := profiler.Open(profiler.Source(profiler.Native))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	heap := new(sync.Mutex)
	locks := []sync.Locker{&alone, &server.lock, &shards[7].lock, heap}
	for _, l := range locks {
		l.Lock()
		for range 3 {
			go func() {
				l.Lock()
				defer l.Unlock()
			}()
		}
	}
	for len(os.Args) > 1 || s.Stats().TicksReached < 50 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Stop(); err != nil { // a last visit to all goroutines
		fmt.Println(err)
		os.Exit(1)
	}
}
