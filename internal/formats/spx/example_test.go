package spx

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/timeline"
	"github.com/gotach/profiler/reader"
)

func ExampleReader_Flat() {
	r, err := Open("testdata/spx-full-20261121_041024-vm-18014-1804289383")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	flat, err := r.Flat()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Metadata().EnabledMetrics)
	for _, f := range flat {
		fmt.Println(f.Name, f.Called, f.Inc, f.Exc)
	}
	// Output:
	// [wt zm]
	// /srv/app/php/fib.php 1 [486993 32] [110564 32]
	// main 1 [376429 0] [71744 0]
	// fib 276 [304685 0] [304685 0]
}

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
	flat, err := r.Flat()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range flat[:3] {
		fmt.Println(f.Name, f.Inc[0])
	}
	// Output:
	// thread 1 9e+06
	// main.main 7e+06
	// main.run 7e+06
}

func Example_create() {
	dir, err := os.MkdirTemp("", "spx")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w, err := create(dir, Metadata{Key: "spx-full-20261121_041024-devbox-4711-1", EnabledMetrics: []string{wallTime}})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Enter(w.Function("main"), 0)
	w.Enter(w.Function("operator<"), 1500)
	w.Leave(4000)
	w.Leave(4500)
	if err := w.Close(); err != nil { // has the first error of all
		fmt.Println(err)
		return
	}
	keys, err := Keys(dir)
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
	flat, err := r.Flat()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range flat {
		fmt.Println(f.Name, f.Called, f.Inc, f.Exc)
	}
	fmt.Println(r.Metadata().WallTimeMS, "µs")
	// Output:
	// main 1 [4500] [2000]
	// operator&lt; 1 [2500] [2500]
	// 4 µs
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
