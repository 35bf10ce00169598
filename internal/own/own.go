// Package own starts the profiler's own goroutines, and recognises them, so that
// profiles can leave them out.
//
// A goroutine keeps the address of the go statement that created it, and sources
// tell the function that has it. [Go] has the only go statement of the profiler,
// so what Go created is the profiler's own: from the goroutine's first
// instruction to its last sample, whether it began before the session or in it.
// No list of goroutines has to be kept.
package own

import (
	"reflect"
	"runtime"
)

// Go runs f in a new goroutine that is the profiler's own. Goroutines that f
// starts in another way, for instance in a callback of the program, are not.
//
//go:noinline
func Go(f func()) {
	go f()
}

// creator is Go's name in stacks. The runtime is asked for it, since tools that
// rename functions exist.
var creator = runtime.FuncForPC(reflect.ValueOf(Go).Pointer()).Name()

// Created reports whether a goroutine is the profiler's own, by the name of the
// function that created it as [runtime.Stack] prints it.
func Created(by string) bool { return by != "" && by == creator }
