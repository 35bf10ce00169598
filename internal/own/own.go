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
	"strings"
	"sync"
)

// creators are the names of Go and Ordinary in stacks. They come from the runtime, because some
// build tools rename functions.
var creators = [2]string{nameOf(Go), nameOf(Ordinary)}

func nameOf(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

// Created reports whether a goroutine is the profiler's own. by is the name of the
// function that created it, as [runtime.Stack] prints it.
func Created(by string) bool { return by != "" && (by == creators[0] || by == creators[1]) }

// Some functions of the profiler run on goroutines of the program: Start, Stop and the
// HTTP handler. They are not part of what the program does, so stacks end at their
// callers. The time that they take is then time of the caller, at the line of the call,
// and every goroutine's time stays complete.

// Profiler is the name of the only frame of a stack if all of its functions are hidden.
// That is the stack of a goroutine that was started with such a function, as in
// "go s.Stop()".
const Profiler = "[profiler]"

var hidden sync.Map // names of functions

// Hide hides functions: frames of them, and of all that they call, are left out of
// stacks. Package variables are the place for calls of Hide, so that the functions are
// hidden before they can run.
func Hide(functions ...any) struct{} {
	for _, f := range functions {
		hidden.Store(nameOf(f), true)
	}
	return struct{}{}
}

// HideCaller hides the function that calls it. It is for init functions, which have no
// value for Hide.
func HideCaller() {
	pc, _, _, _ := runtime.Caller(1)
	hidden.Store(runtime.FuncForPC(pc).Name(), true)
}

// Hidden reports whether a function is hidden. name is that of a frame.
func Hidden(name string) bool {
	_, ok := hidden.Load(strings.TrimSuffix(name, "-fm")) // the function of a method value
	return ok
}
