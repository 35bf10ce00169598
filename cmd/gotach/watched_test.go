package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
)

// watched OUT is a program that writes a profile and serves httpprof.Handler. It prints its address.
func watched() {
	defer profiler.Start(profiler.Output(os.Args[1])).Stop()
	lock := make(chan struct{}, 1)
	for range 3 {
		go busy(lock)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go http.Serve(l, httpprof.Handler())
	var b [1]byte
	os.Stdin.Read(b[:]) // until the test ends
}

func busy(lock chan struct{}) {
	for {
		lock <- struct{}{}
		hash(5)
		<-lock
		time.Sleep(time.Millisecond)
	}
}
