package own

import (
	"runtime"
	"strings"
	"sync"
)

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
