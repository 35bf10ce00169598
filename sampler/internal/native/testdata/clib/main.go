// Command clib is a Go library for the C programs of testdata/c. It can sample itself.
package main

import "C"

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

type sink struct {
	sampler.OnePart
	samples int
}

func (*sink) Intern(tachyon.Frame) uint32 { return 0 }
func (k *sink) WriteBatch(list []tachyon.Sample) (int, error) {
	k.samples += len(list)
	return len(list), nil
}
func (*sink) Forget(uint64, uint32) error { return nil }

func (*sink) WriteRecords(*tachyon.Records) error { return nil }

var (
	taken   sink
	session *sampler.Sampler
)

// GoStart begins a session and reports whether its source is the native one.
//
//export GoStart
func GoStart() C.int {
	var err error
	session, err = sampler.Start(sampler.Config{Rate: 2000, Budget: 50}, &taken)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Start:", err)
		os.Exit(3)
	}
	st := session.Stats()
	if st.Source == "native" {
		return 1
	}
	fmt.Fprintln(os.Stderr, "portable:", st.SourceReason)
	return 0
}

// GoStop ends the session and reports whether it ended early.
//
//export GoStop
func GoStop() C.int {
	if err := session.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "Stop:", err)
		return 1
	}
	return 0
}

// GoSamples returns the number of samples, after the end of the session.
//
//export GoSamples
func GoSamples() C.int { return C.int(taken.samples) }

// GoSleep sleeps for ms milliseconds.
//
//export GoSleep
func GoSleep(ms C.int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

// GoWork computes hashes on four goroutines and sometimes collects garbage. It returns a number that depends
// on all hashes.
//
//export GoWork
func GoWork(n C.int) C.long {
	var all sync.WaitGroup
	var mu sync.Mutex
	sum := 0
	for i := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			b := make([]byte, 1000)
			b[0] = byte(i)
			for range int(n) {
				x := sha256.Sum256(b)
				copy(b, x[:])
			}
			mu.Lock()
			sum += int(b[0]) + int(b[1])<<8
			mu.Unlock()
		}()
	}
	all.Wait()
	if n%7 == 0 {
		runtime.GC()
	}
	return C.long(sum)
}

func main() {}
