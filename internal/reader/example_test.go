package reader_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

func ExampleOpen() {
	r, err := reader.Open("../../testdata/tachyon/document-v2/tiny.zstd.bin")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	h := r.Header()
	fmt.Printf("%s layout, %d samples of %d threads, one each %d µs\n", h.Layout, h.Samples, h.Threads, h.Interval)
	// Output: document layout, 11 samples of 2 threads, one each 1000 µs
}

func ExampleReader_Samples() {
	r, err := reader.Open("../../testdata/tachyon/document-v2/tiny.zstd.bin")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	self := map[string]int{}
	for s, err := range r.Samples() {
		if err != nil {
			log.Fatal(err)
		}
		if len(s.Stack) > 0 {
			self[r.Frames()[s.Stack[0]].Func]++
		}
	}
	fmt.Println(self)
	// Output: map[main.(*Worker).step:5 main.run:1 runtime.gopark:3 strings.(*Builder).WriteString:2]
}

// A file without a header is unfinished.
func ExampleNew() {
	b, err := os.ReadFile("../../testdata/tachyon/bad/zeros96.bin")
	if err != nil {
		log.Fatal(err)
	}
	_, err = reader.New(bytes.NewReader(b)) // or os.Stdin
	fmt.Println(err)
	fmt.Println(errors.Is(err, reader.ErrUnfinished))
	// Output:
	// offset 0: the file is unfinished: its writer is still running or was killed
	// true
}

func ExampleReader_Metadata() {
	r, err := reader.Open("../../testdata/tachyon/cpython-3.15/meta.bin")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil {
		log.Fatal(err)
	}
	if m.Session == nil {
		fmt.Println("not one of gotach's files")
	}
	fmt.Println(r.Statistics().Duration, "seconds, says CPython")
	// Output:
	// not one of gotach's files
	// 1.5 seconds, says CPython
}

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
