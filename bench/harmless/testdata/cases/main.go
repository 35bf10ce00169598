// Command cases runs one case of docs/harm.md, which its arguments name. If PROFILE_OUT is set, the
// case runs in a session.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	profiler "github.com/gotach/profiler"
)

// cases are the cases by name. A case whose name starts with "alone " runs without other goroutines.
// A case whose name starts with "own " starts its sessions itself.
var cases = map[string]func(){}

func add(more map[string]func()) bool {
	for name, f := range more {
		cases[name] = f
	}
	return true
}

func main() {
	name := strings.Join(os.Args[1:], " ")
	switch os.Args[1] {
	case "own serves":
		serves(os.Args[2])
	case "own debugged":
		debugged()
	case "own counts":
		defer session()()
		countInterrupted(os.Args[2], check1(strconv.Atoi(os.Args[3])))
		return
	}
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
		time.Sleep(rand.N(3 * time.Millisecond)) // so that the program ends at different moments of the session
	} else {
		time.Sleep(30 * time.Millisecond) // so that sampling is under way
	}
	do()
}

// current is the session, nil if there is none. stopped is true when the session has been stopped, or would have been.
var (
	current *profiler.Session
	stopped atomic.Bool
)

// session starts a session if PROFILE_OUT is set. It returns a function that stops it.
func session() (stop func()) {
	if os.Getenv("PROFILE_OUT") == "" {
		return func() { stopped.Store(true) }
	}
	current = profiler.Start()
	return func() {
		_ = current.Stop() // Stop logs its error
		stopped.Store(true)
	}
}

// beside starts goroutines that run and wait while the case runs.
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

// check1 returns a value if err is nil.
func check1[T any](v T, err error) T { check(err); return v }

// check ends the program if err is not nil: then the case cannot run here.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "case:", err)
		os.Exit(65)
	}
}
