package main

import (
	"fmt"
	"os"
	"time"
	profiler "github.com/gotach/profiler"
)

//go:noinline
func hit(n int) int { return n*31 + 1 }

func main() {
	if os.Getenv("PROFILE_OUT") != "" {
		s := profiler.Start()
		defer func() { s.Stop() }()
	}
	n := 0
	fmt.Println("ready")
	for i := 0; i < 100; i++ {
		n = hit(n)
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println("n", n)
	defer os.Exit(7)
}
