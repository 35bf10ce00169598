// Package own starts the profiler's own goroutines and recognises them, so that
// profiles can leave them out. It also knows the profiler's functions that run on the
// program's goroutines.
//
// The runtime keeps for each goroutine the address of the go statement that created
// it, and sources report the function of that address. [Go] contains the profiler's
// only go statement, so every goroutine that Go created is the profiler's own. This
// holds from its first instruction to its last sample, and for goroutines that
// started before the session. No list of goroutines is needed.
package own

import (
	"reflect"
	"runtime"
)

// Go runs f in a new goroutine of the profiler. Goroutines that f starts without Go,
// for example in a callback of the program, belong to the program.
//
//go:noinline
func Go(f func()) {
	go f()
}

// creator is the name of Go in stacks. It comes from the runtime, because some build
// tools rename functions.
var creator = runtime.FuncForPC(reflect.ValueOf(Go).Pointer()).Name()

// Created reports whether a goroutine is the profiler's own. by is the name of the
// function that created it, as [runtime.Stack] prints it.
func Created(by string) bool { return by != "" && by == creator }
