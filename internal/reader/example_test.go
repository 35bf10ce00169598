package reader_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/gotach/profiler/internal/reader"
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
