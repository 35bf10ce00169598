package own

// The binaries of gotach test have another file in place of this one: start.go.txt of its package.

// Counted says whether the runtime counts the goroutines of Go as the program's, for
// runtime.NumGoroutine and others.
const Counted = true

// Go runs f in a new goroutine of the profiler. Goroutines that f starts without Go,
// for example in a callback of the program, belong to the program.
//
//go:noinline
func Go(f func()) { go f() }

// Ordinary is Go for a goroutine that the runtime must count, because Start checks what it reads of
// the program's ones.
//
//go:noinline
func Ordinary(f func()) { go f() }

// Entry returns the name of the first function of a goroutine that Go has started with a function.
func Entry(function string) string { return function }
