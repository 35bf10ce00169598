package main

import (
	"crypto/sha256"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
)

// until calls f until stop is closed.
func until(stop <-chan struct{}, f func()) {
	for {
		select {
		case <-stop:
			return
		default:
			f()
		}
	}
}

var sink atomic.Bool // keeps loops from being optimised away

// computing uses about so much CPU time.
//
//go:noinline
func computing(d time.Duration) {
	x := 1.0 // each goroutine has its own
	for range d.Microseconds() * 800 {
		x *= 1.0000001
	}
	sink.Store(x > 0)
}

//go:noinline
func calling(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&t, nil)
}

// bursts has goroutines that compute, then block in a system call.
func bursts(stop <-chan struct{}, _ string) error {
	for range 4 {
		go until(stop, func() {
			computing(time.Millisecond)
			calling(3 * time.Millisecond)
		})
	}
	return nil
}

// short has goroutines that live for a tenth of a millisecond.
func short(stop <-chan struct{}, _ string) error {
	for range 2 {
		go until(stop, func() {
			done := make(chan bool)
			go brief(done)
			<-done
		})
	}
	return nil
}

func brief(done chan<- bool) {
	computing(100 * time.Microsecond)
	done <- true
}

// tcp is the plainest server: it reads, computes and writes.
func tcp(stop <-chan struct{}, _ string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	for range 8 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		go until(stop, func() { ask(c) })
	}
	return nil
}

func serve(c net.Conn) {
	var b [64]byte
	for {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return
		}
		computing(50 * time.Microsecond)
		c.Write(b[:])
	}
}

func ask(c net.Conn) {
	var b [64]byte
	c.Write(b[:])
	io.ReadFull(c, b[:])
}

// mixed has hashes, garbage, reads and hand-overs.
func mixed(stop <-chan struct{}, folder string) error {
	debug.SetGCPercent(20)
	f, err := os.CreateTemp(folder, "read")
	if err != nil {
		return err
	}
	f.Write(make([]byte, 1<<20))
	go until(stop, hash)
	go until(stop, func() { read(f) })
	keep := make([][]byte, 4096)
	i := 0
	go until(stop, func() {
		i++
		keep[i%len(keep)] = garbage(i)
		if i%64 == 0 {
			time.Sleep(100 * time.Microsecond)
		}
	})
	ping, pong := make(chan int), make(chan int)
	go handOver(ping, pong)
	go handOver(pong, ping)
	ping <- 1
	return nil
}

//go:noinline
func hash() {
	b := make([]byte, 4096)
	for range 50 {
		s := sha256.Sum256(b)
		copy(b, s[:])
	}
	time.Sleep(200 * time.Microsecond)
}

//go:noinline
func read(f *os.File) {
	var b [65536]byte
	f.ReadAt(b[:], 0)
	time.Sleep(100 * time.Microsecond)
}

//go:noinline
func garbage(i int) []byte { return make([]byte, 64+i%4000) }

func handOver(from <-chan int, to chan<- int) {
	for n := range from {
		to <- n + 1
	}
}
