package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

func main() {
	r, err := reader.Open(os.Args[1])
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
}
