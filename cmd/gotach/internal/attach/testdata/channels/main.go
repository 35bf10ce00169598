// Command channels has goroutines that wait for channels and for other things, and prints for each function where they wait the addresses of its channels
// when all of them wait. It ends with its input.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

func receive(c chan int) { <-c }
func send(c chan int)    { c <- 1 }
func each(c chan int)    { <-c }
func lock(m *sync.Mutex) { m.Lock() }
func nothing(c chan int) { <-c }
func choose(a, b chan int) {
	select {
	case <-a:
	case b <- 1:
	}
}

func main() {
	none, full, a, b, m := make(chan int), make(chan int, 3), make(chan int), make(chan int), new(sync.Mutex)
	m.Lock()
	for range make([]int, cap(full)) {
		full <- 1
	}
	const each4 = 4
	for i := 0; i < each4; i++ {
		go receive(none)
		go send(full)
		go choose(a, b)
		go lock(m)
		go nothing(nil)
		go each(make(chan int))
	}
	text := make([]byte, 1<<20)
	for wait := true; wait; runtime.Gosched() {
		n := runtime.Stack(text, true)
		wait = bytes.Count(text[:n], []byte("[chan receive")) < 3*each4 || bytes.Count(text[:n], []byte("[chan send")) < each4 ||
			bytes.Count(text[:n], []byte("[select")) < each4 || bytes.Count(text[:n], []byte("[se")) < 2*each4 && bytes.Count(text[:n], []byte("[sync.Mutex.Lock")) < each4
	}
	fmt.Printf("receive %p 0\nsend %p 3\nchoose %p 0\nchoose %p 0\n\n", none, full, a, b)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
