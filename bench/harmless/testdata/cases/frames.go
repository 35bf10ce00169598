package main

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"
)

// Programs at which frame pointer tracebacks of Go itself have crashed, or can. Each does something many times while stacks
// grow, shrink and are walked.
var _ = add(map[string]func(){
	"frames defers":   func() { frames(func() { deferred(300) }) },               // go.dev/issue/59692
	"frames recovers": func() { frames(func() { recovered(30) }) },               // go.dev/issue/61766
	"frames duffcopy": func() { frames(copiesNil) },                              // go.dev/issue/73664, 73748
	"frames goexits":  func() { frames(func() { aside(func() { exits(50) }) }) }, // deferred calls of runtime.Goexit
	"frames reflect":  func() { frames(func() { aside(calls) }) },
	"frames grows":    func() { frames(func() { aside(func() { deep(2000) }) }) },                    // go.dev/issue/58432, 75478
	"frames assembly": func() { frames(func() { keepsBP(20_000, 1); keepsBP(20_000, ^uint64(0)) }) }, // as in apache/arrow-go#150
	"frames preempts": func() { frames(func() { aside(func() { leaf(1_000_000) }) }) },               // go.dev/issue/63830
})

// frames runs f in four goroutines for half a second, beside the collector, which shrinks stacks.
func frames(f func()) {
	var all sync.WaitGroup
	end := time.Now().Add(500 * time.Millisecond)
	for range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				f()
			}
		})
	}
	for time.Now().Before(end) {
		runtime.GC()
	}
	all.Wait()
	fmt.Println("done")
}

// aside runs f in a new goroutine, whose stack is small.
func aside(f func()) {
	var one sync.WaitGroup
	one.Go(f)
	one.Wait()
}

// deferred nests calls with deferred functions, one on the stack and some on the heap, which panic and wait.
func deferred(n int) {
	if n == 0 {
		panic("as intended")
	}
	defer func() {
		if n%100 == 0 {
			time.Sleep(time.Microsecond)
			_ = recover()
			if n < 300 {
				panic("again")
			}
		}
	}()
	for i := range n % 3 {
		defer func() { leaf(uint64(i)) }()
	}
	deferred(n - 1)
}

// recovered recovers, and waits in the function that runs after it.
func recovered(n int) {
	defer func() {
		if recover() == nil {
			panic("there was no panic")
		}
		deep(20)
		time.Sleep(time.Microsecond)
	}()
	if n > 0 {
		recovered(n - 1)
	}
	panic("as intended")
}

type large [32]int

// copiesNil faults in a copy of many words, and waits in the deferred function.
func copiesNil() {
	defer func() {
		_ = recover()
		time.Sleep(time.Microsecond)
		deep(20)
	}()
	copyOf(nil)
}

//go:noinline
func copyOf(p *large) large { return *p }

// exits ends its goroutine from a deferred function, in which deferred functions run.
func exits(n int) {
	defer func() {
		defer runtime.Goexit()
		_ = recover()
		time.Sleep(time.Microsecond)
	}()
	if n == 0 {
		panic("as intended")
	}
	exits(n - 1)
}

type huge [2000]int

// calls makes calls with large frames by reflection, from a small stack.
func calls() {
	f := reflect.ValueOf(func(h huge, n int) (huge, int) { return h, deep(n) })
	out := f.Call([]reflect.Value{reflect.ValueOf(huge{7}), reflect.ValueOf(50)})
	if out[0].Index(0).Int() != 7 {
		panic("the wrong result")
	}
	m := reflect.MakeFunc(f.Type(), func(in []reflect.Value) []reflect.Value { runtime.Gosched(); return in })
	if h, n := m.Interface().(func(huge, int) (huge, int))(huge{8}, 9); h[0] != 8 || n != 9 {
		panic("the wrong result")
	}
}

// keepsBP counts down from n in assembly, with junk in the frame pointer register.
func keepsBP(n int, junk uint64)

// leaf has loops without calls, which only signals preempt.
//
//go:noinline
func leaf(n uint64) (x uint64) {
	for i := range n {
		x = x*31 + i
	}
	return x
}
