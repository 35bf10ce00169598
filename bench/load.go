package main

import (
	"compress/flate"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// park starts n goroutines that wait for a channel, a select or a lock until the process
// ends. Their stacks are 15 to 20 frames deep, on about sixty different paths. park returns
// when all of them wait, after a garbage collection.
func park(n int) error {
	var (
		ready         sync.WaitGroup
		never, never2 = make(chan int), make(chan int)
		lock          sync.Mutex
		others        = runtime.NumGoroutine()
	)
	lock.Lock()
	ready.Add(n)
	for i := range n {
		wait := func() { <-never }
		switch i % 3 {
		case 1:
			wait = func() {
				select {
				case <-never:
				case <-never2:
				}
			}
		case 2:
			wait = lock.Lock
		}
		go left(13+i%6, int(uint32(i)*2654435761>>16), func() {
			ready.Done()
			wait()
		})
	}
	ready.Wait()
	time.Sleep(100 * time.Millisecond) // a goroutine calls Done just before it waits
	runtime.GC()
	if got := runtime.NumGoroutine() - others; got != n {
		return fmt.Errorf("%d of %d goroutines wait", got, n)
	}
	return nil
}

// left makes a stack of depth frames, each of left or of right. The innermost one calls f. The bits
// of path decide which of the two functions is called next.
//
//go:noinline
func left(depth, path int, f func()) int {
	var pad [8]int
	pad[depth&7] = path
	switch {
	case depth == 0:
		f()
	case path&3 == 0:
		pad[1] += right(depth-1, path>>1, f)
	default:
		pad[2] += left(depth-1, path>>1, f)
	}
	return pad[0] + pad[1]
}

//go:noinline
func right(depth, path int, f func()) int {
	var pad [8]int
	pad[depth&7] = path
	switch {
	case depth == 0:
		f()
	case path&3 == 1:
		pad[1] += left(depth-1, path>>1, f)
	default:
		pad[2] += right(depth-1, path>>1, f)
	}
	return pad[0] + pad[2]
}

// A load has a goroutine for each P. Each goroutine compresses blocks of text.
type load struct {
	done []counter
}

// A counter has its own cache line, so that the goroutines do not slow each other down.
type counter struct {
	blocks atomic.Int64
	_      [120]byte
}

// startLoad starts a load that runs until the process ends.
func startLoad() *load {
	l := &load{done: make([]counter, runtime.GOMAXPROCS(0))}
	for i := range l.done {
		go l.work(&l.done[i])
	}
	return l
}

func (l *load) work(c *counter) {
	for block := blocks(); ; c.blocks.Add(1) {
		block()
	}
}

// blocks returns a function that compresses a block of text. It does not allocate.
func blocks() func() {
	var text []byte
	for i := range 400 {
		text = strconv.AppendInt(append(text, " item "...), int64(i*i*7919%100003), 10)
	}
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err) // impossible: the only error is a bad level, and the level is a constant
	}
	return func() {
		w.Reset(io.Discard)
		w.Write(text)
		w.Close()
	}
}

// blocks returns the number of blocks compressed so far.
func (l *load) blocks() (n int64) {
	for i := range l.done {
		n += l.done[i].blocks.Load()
	}
	return n
}
