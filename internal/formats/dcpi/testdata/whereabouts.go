// Whereabouts prints addresses in itself, and where the runtime says they are.
package main

import "runtime"

type list[T any] struct{ v []T }

func (l *list[T]) first() []uintptr { return here() } // inlined

//go:noinline
func (l *list[T]) second() []uintptr { return here() }

//go:noinline
func here() []uintptr {
	pc := make([]uintptr, 1)
	runtime.Callers(2, pc)
	return pc
}

//go:noinline
func outer() []uintptr { return once() }

func once() []uintptr { return twice() } // inlined

func twice() []uintptr { return here() } // inlined into what is inlined

func main() {
	l := &list[int]{}
	for _, pcs := range [][]uintptr{here(), once(), outer(), l.first(), l.second()} {
		f, _ := runtime.CallersFrames(pcs).Next()
		println(pcs[0]-1, f.Line, f.Function, f.File, runtime.FuncForPC(f.Entry).Name())
	}
}
