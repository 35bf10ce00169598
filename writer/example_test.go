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
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
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

func ExampleWriter_Write() {
	f, err := os.CreateTemp("", "*.tach")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	w, err := writer.New(f, writer.Options{Uncompressed: true})
	if err != nil {
		log.Fatal(err)
	}
	// Intern each frame once and use its id in all samples.
	inner := w.Intern(tachyon.Frame{File: "main.go", Func: "main.work", Line: 30})
	outer := w.Intern(tachyon.Frame{File: "main.go", Func: "main.main", Line: 12})
	if err := w.Write(&tachyon.Sample{Thread: 1, Time: 1000, Stack: []uint32{inner, outer}}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fi, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(fi.Size(), "bytes")
	// Output: 149 bytes
}
