package reader_test

import (
	"fmt"
	"log"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// This prints the CPU and waiting time of each goroutine with its labels, in the
// order of their metadata, with the time in µs since when it had them.
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
		if s.Status&(tachyon.HasGIL|tachyon.GILRequested) == 0 { // does not run and is not ready to
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
