package writer_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

func ExampleCreate() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	start := uint64(1_700_000_000_000_000) // Unix time, µs
	w, err := writer.Create(filepath.Join(dir, "app.tach"), writer.Options{Start: start, Interval: 1000})
	if err != nil {
		log.Fatal(err)
	}
	stack := []tachyon.Frame{
		{File: "main.go", Func: "main.work", Line: 30},
		{File: "main.go", Func: "main.main", Line: 12},
	}
	for tick := range uint64(3) {
		if err := w.WriteFrames(&tachyon.Sample{Thread: 1, Time: start + 1000*tick, Status: 3}, stack); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(w.Close())
	// Output: <nil>
}
