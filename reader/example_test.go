package reader_test

import (
	"cmp"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/reader"
)

const file = "../testdata/compatibility/v0/native.tach"

// How much time each function, or what it waited for, took itself.
func Example_sumByFunction() {
	p, err := reader.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	sums := map[string]time.Duration{}
	for s, err := range p.Samples() {
		if err != nil {
			log.Fatal(err)
		}
		sums[s.Stack()[0].Func] += s.Weight
	}
	for _, name := range slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Compare(sums[b], sums[a]) })[:4] {
		fmt.Println(sums[name].Round(time.Millisecond), name)
	}
	// Output:
	// 1.291s [chan receive]
	// 782ms [sleep]
	// 638ms [sync.Mutex.Lock]
	// 139ms [not seen]
}

// The longest wait of the goroutines with each value of a label, and where it was.
func Example_longestWaits() {
	p, err := reader.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	type wait struct {
		long  time.Duration
		where string
	}
	longest := map[string]wait{}
	present := map[uint64]time.Duration{} // how long each goroutine has waited
	for s, err := range p.Samples() {
		if err != nil {
			log.Fatal(err)
		}
		value := s.Label("worker")
		if !s.Waits || value == "" {
			continue
		}
		if !s.Same {
			present[s.Goroutine] = 0
		}
		present[s.Goroutine] += s.Weight
		if long := present[s.Goroutine]; long > longest[value].long {
			stack := s.Stack()
			i := slices.IndexFunc(stack, func(f reader.Frame) bool { return strings.HasPrefix(f.Func, "main.") })
			longest[value] = wait{long, fmt.Sprintf("%s in %s, line %d", s.State, stack[i].Func, stack[i].Line)}
		}
	}
	for _, value := range slices.Sorted(maps.Keys(longest)) {
		fmt.Printf("worker %s: %v, %s\n", value, longest[value].long.Round(time.Millisecond), longest[value].where)
	}
	// Output:
	// worker 0: 44ms, sleep in main.locks, line 108
	// worker 1: 44ms, sync.Mutex.Lock in main.locks, line 106
	// worker 2: 44ms, sync.Mutex.Lock in main.locks, line 106
}

// What every goroutine did 200 ms after the profile began.
func Example_instant() {
	p, err := reader.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	at := p.Session().Start.Add(200 * time.Millisecond)
	var list []string
	for s, err := range p.Samples() {
		if err != nil {
			log.Fatal(err)
		}
		if s.Begin.After(at) || !s.End.After(at) {
			continue
		}
		stack := s.Stack()
		list = append(list, fmt.Sprintf("goroutine %d: %s, began in %s", s.Goroutine, s.State, stack[max(0, len(stack)-1)].Func))
	}
	slices.Sort(list)
	for _, line := range list {
		fmt.Println(line)
	}
	// Output:
	// goroutine 10: chan receive, began in main.receives
	// goroutine 11: chan receive, began in main.receives
	// goroutine 12: chan receive, began in main.receives
	// goroutine 13: chan receive, began in main.receives
	// goroutine 14: sleep, began in main.work.func2
	// goroutine 1: sleep, began in runtime.main
	// goroutine 7: sync.Mutex.Lock, began in runtime/pprof.Do
	// goroutine 8: sync.Mutex.Lock, began in runtime/pprof.Do
	// goroutine 9: sleep, began in runtime/pprof.Do
}
