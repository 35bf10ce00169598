package writer_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

func ExampleCreate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	start := uint64(1_700_000_000_000_000) // Unix time, µs
	w, err := writer.Create(filepath.Join(dir, "app.tach"), writer.Options{Start: start, Interval: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	stack := []tachyon.Frame{
		{File: "main.go", Func: "main.work", Line: 30},
		{File: "main.go", Func: "main.main", Line: 12},
	}
	for tick := range uint64(3) {
		err = w.WriteFrames(&tachyon.Sample{Thread: 1, Time: start + 1000*tick, Status: 3}, stack)
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(w.Close())
	// Output: <nil>
}

func ExampleWriter_Write() {
	f, err := os.CreateTemp("", "*.tach")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(f.Name())
	defer f.Close()
	w, err := writer.New(f, writer.Options{Uncompressed: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Intern each frame once and use its id in all samples.
	inner := w.Intern(tachyon.Frame{File: "main.go", Func: "main.work", Line: 30})
	outer := w.Intern(tachyon.Frame{File: "main.go", Func: "main.main", Line: 12})
	err = w.Write(&tachyon.Sample{Thread: 1, Time: 1000, Stack: []uint32{inner, outer}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	fi, err := f.Stat()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fi.Size(), "bytes")
	// Output: 149 bytes
}
