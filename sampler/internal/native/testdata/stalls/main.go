// Command stalls takes two profiles. The first session may end with an error and without the native source, the second
// one must have it, once the first one's last tick has ended. It prints "ok" at its end.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
)

func main() {
	stop := make(chan struct{})
	for range 50 {
		go move(stop)
	}
	dir := os.Args[1]
	if s, err := profiler.Open(profiler.Output(filepath.Join(dir, "first.tach"))); err != nil {
		fmt.Println(err)
	} else {
		time.Sleep(300 * time.Millisecond)
		finish(s)
	}
	for {
		s, err := profiler.Open(profiler.Output(filepath.Join(dir, "second.tach")), profiler.Source(profiler.Native))
		if err == nil {
			time.Sleep(10 * time.Millisecond)
			finish(s)
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	close(stop)
	fmt.Println("ok")
}

// move waits, and starts goroutines that end.
func move(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		done := make(chan struct{})
		go func() { defer close(done); time.Sleep(time.Millisecond) }()
		<-done
	}
}

// finish ends a session. Its file must be readable, or it must have said an error.
func finish(s *profiler.Session) {
	fmt.Println(s.Stats().Reason)
	err := s.Stop()
	r, errRead := reader.Open(s.Path())
	if errRead == nil {
		for _, err := range r.Samples() {
			if err != nil {
				errRead = err
			}
		}
		r.Close()
	}
	fmt.Println(err, errRead)
	if err == nil && errRead != nil {
		os.Exit(1)
	}
}
