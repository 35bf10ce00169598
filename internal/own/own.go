// Package own starts the profiler's own goroutines and recognises them, so that
// profiles can leave them out. It also knows the profiler's functions that run on the
// program's goroutines.
//
// The runtime keeps for each goroutine the address of the go statement that created
// it, and sources report the function of that address. [Go] and [Ordinary] contain the
// profiler's only go statements, so every goroutine that they created is the profiler's own. This
// holds from its first instruction to its last sample, and for goroutines that
// started before the session. No list of goroutines is needed.
package own

import (
	"reflect"
	"runtime"
)

// creators are the names of Go and Ordinary in stacks. They come from the runtime, because some
// build tools rename functions.
var creators = [2]string{nameOf(Go), nameOf(Ordinary)}

func nameOf(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

// Created reports whether a goroutine is the profiler's own. by is the name of the
// function that created it, as [runtime.Stack] prints it.
func Created(by string) bool { return by != "" && (by == creators[0] || by == creators[1]) }
