package spx

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/timeline"
	"github.com/gotach/profiler/reader"
)

func ExampleReader_Events() {
	r, err := Open("testdata/spx-full-20261121_041033-vm-18085-1804289383.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	n := 0
	for e, err := range r.Events() {
		if err != nil {
			fmt.Println(err)
			return
		}
		if n++; n <= 3 {
			fmt.Println(e.Function, e.Enter, e.Values)
		}
	}
	fmt.Println(n, "events,", len(r.Functions()), "functions")
	// Output:
	// 0 true [0 0]
	// 1 true [70849 784]
	// 2 true [74609 784]
	// 38 events, 15 functions
}

func ExampleWrite() {
	in, err := reader.Open("../../../testdata/tachyon/document-v2/tiny.bin")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	t, err := timeline.FromTachyon(in)
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "spx")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	keys, err := Write(dir, t, Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := Open(filepath.Join(dir, keys[0]))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	_, functions, err := r.Profile()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range functions[:3] {
		fmt.Println(f.Name, f.Inc[0])
	}
	// Output:
	// thread 1 9e+06
	// main.main 7e+06
	// main.run 7e+06
}

func ExampleReader_Profile() {
	r, err := Open("testdata/spx-full-20261121_041025-vm-18024-1804289383")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	p, functions, err := r.Profile()
	if err != nil {
		fmt.Println(err)
		return
	}
	wall, cpu := p.Total()
	fmt.Println(p.Program, wall, cpu)
	fmt.Println(len(functions), "functions in", len(p.Records), "different stacks,", p.Samples, "calls")
	// Output:
	// oop.php 11.812304ms 1.532351ms
	// 14 functions in 17 different stacks, 368 calls
}
