// Command cases does what docs/harm.md says of it: one case, by its name, with a
// session around it if PROFILE_OUT is set.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	profiler "github.com/gotach/profiler"
)

// cases are what the program can do. One whose name starts with "alone " has no other
// goroutines beside it, and one with "own " starts its sessions itself.
var cases = map[string]func(){}

func add(more map[string]func()) bool {
	for name, f := range more {
		cases[name] = f
	}
	return true
}

func main() {
	name := strings.Join(os.Args[1:], " ")
	do, ok := cases[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no case %q\n", name)
		os.Exit(64)
	}
	if name == "exits while Start runs" {
		go do()
	}
	if strings.HasPrefix(name, "own ") {
		do()
		return
	}
	defer session()()
	if !strings.HasPrefix(name, "alone ") {
		beside()
	}
	if os.Getenv("GOTACH_SHORT") != "" {
		time.Sleep(rand.N(3 * time.Millisecond)) // so that the end meets all that a session does
	} else {
		time.Sleep(30 * time.Millisecond) // so that sampling is under way
	}
	do()
}

// current is the session, nil if there is none.
var current *profiler.Session

// session starts one if there is to be one, and returns what stops it.
func session() (stop func()) {
	if os.Getenv("PROFILE_OUT") == "" {
		return func() {}
	}
	current = profiler.Start()
	return func() { _ = current.Stop() } // which has warned
}

// beside has goroutines run and wait beside the case.
func beside() {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for n := range ping {
			pong <- n + 1
		}
	}()
	go func() {
		for n := 0; ; n++ {
			ping <- n
			<-pong
			if n%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	for range 20 {
		go func() { select {} }()
	}
}

// check ends the program if something failed that the case needs.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "case:", err)
		os.Exit(65)
	}
}
