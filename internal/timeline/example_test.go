package timeline_test

import (
	"fmt"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/timeline"
)

func ExampleFromTachyon() {
	r, err := reader.Open("../../testdata/tachyon/document-v2/tiny.bin")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	t, err := timeline.FromTachyon(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range t.Goroutines {
		fmt.Printf("goroutine %d: %d runs from %v on\n", g.ID, len(g.Runs), g.Start)
	}
	run := t.Goroutines[0].Runs[0]
	for _, node := range t.Path(nil, run.Node) {
		fmt.Println(t.Frames[t.Nodes[node].Frame].Func)
	}
	// Output:
	// goroutine 1: 6 runs from 0s on
	// goroutine 2: 1 runs from 6ms on
	// main.main
	// main.run
	// main.(*Worker).step
}
