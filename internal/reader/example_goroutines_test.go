package reader_test

import (
	"fmt"
	"log"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// Print the CPU time, the waiting time and the labels of each goroutine. A label set comes
// with the time in µs from which on the goroutine had it.
func Example_goroutines() {
	r, err := reader.Open("testdata/goroutines/app.tach")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	cpu, waiting := map[uint64]time.Duration{}, map[uint64]time.Duration{}
	for s, err := range reader.Weighted(r) {
		if err != nil {
			log.Fatal(err)
		}
		cpu[s.Thread] += s.CPU()
		if s.Status&(tachyon.HasGIL|tachyon.GILRequested) == 0 { // neither running nor runnable
			waiting[s.Thread] += s.Wall()
		}
	}
	m, err := r.Metadata()
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range m.Goroutines {
		fmt.Printf("goroutine %d: %v on CPU, %v waiting, labels %v\n", g.ID, cpu[g.ID], waiting[g.ID], g.Labels)
	}
	// Output:
	// goroutine 1: 3ms on CPU, 0s waiting, labels []
	// goroutine 7: 1ms on CPU, 5ms waiting, labels [{1000 map[endpoint:/cart]} {4000 map[endpoint:/pay]}]
}
