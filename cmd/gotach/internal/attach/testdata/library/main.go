// Command library is a shared library for programs of C, or a plugin. Its goroutines wait. It prints runtime.Stack for each line that it reads, and an
// empty page after it.
package main

import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
)

//go:noinline
func deep(n int, c chan int) int {
	if n == 0 {
		return inlined(c)
	}
	return deep(n-1, c) + 1
}

func inlined(c chan int) int { return <-c }

// Run returns when there is no more to read.
//
//export Run
func Run() {
	c := make(chan int)
	for i := range 40 {
		go deep(i, c)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		b := make([]byte, 1<<20)
		fmt.Printf("%s\n\f\n", b[:runtime.Stack(b, true)])
	}
}

func main() {}
