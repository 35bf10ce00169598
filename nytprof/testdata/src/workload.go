// Workload is the program that the tests' sampled profiles tell of.
package main

import (
	"fmt"
	"sort"
)

type tree[T any] struct {
	left, right *tree[T]
	value       T
}

func (t *tree[T]) walk(visit func(T)) {
	if t == nil {
		return
	}
	t.left.walk(visit)
	visit(t.value) // <b>not markup</b> & "quotes"
	t.right.walk(visit)
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func produce(out chan<- int) {
	for i := range 30 {
		out <- fib(i)
	}
	close(out)
}

func main() {
	numbers := make(chan int)
	go produce(numbers)
	var all []int
	for n := range numbers {
		all = append(all, n)
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i] < all[j]
	})
	root := &tree[int]{value: 1}
	root.walk(func(n int) { fmt.Println(n, all) })
}
