package profile_test

import (
	"fmt"
	"log"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
)

func ExampleFromTachyon() {
	r, err := reader.Open("../../testdata/tachyon/document-v2/tiny.bin")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	p, err := profile.FromTachyon(r)
	if err != nil {
		log.Fatal(err)
	}
	wall, cpu := p.Total()
	fmt.Printf("%d samples of %d goroutines: %v, %v of it on CPU\n", p.Samples, p.Goroutines, wall, cpu)
	// Output: 11 samples of 2 goroutines: 12ms, 9ms of it on CPU
}

func ExampleNew() {
	p := &profile.Profile{
		Frames: []profile.Frame{{Func: "[sleep]"}, {Func: "time.Sleep", File: "time.go", Line: 300}, {Func: "main.main", File: "main.go", Line: 7}},
		Records: []profile.Record{
			{State: "sleep", Stack: []uint32{0, 1, 2}, Count: 6, Wall: 6e6},
			{State: "running", Stack: []uint32{2}, Count: 4, Wall: 4e6, CPU: 4e6},
		},
	}
	r, err := profile.New(p, profile.ReportOptions{Sort: profile.SortTotal})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range r.Rows {
		fmt.Println(row.Name, row.Self, row.Total)
	}
	// Output:
	// main.main 4ms 10ms
	// [sleep] 6ms 6ms
	// time.Sleep 0s 6ms
}

func ExamplePackage() {
	fmt.Println(profile.Package("net/http.(*conn).serve"))
	// Output: net/http
}
