package main

import (
	"os"
	"strconv"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// differs OUT PERCENT writes a profile of 10 s, in which main.extra takes that much of a core.
func differs() {
	const start, second = 1_795_234_224_000_000, 1_000_000
	extra, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err != nil {
		panic(err)
	}
	w, err := writer.Create(os.Args[1], writer.Options{Start: start, Interval: 1000})
	if err != nil {
		panic(err)
	}
	at := uint64(0)
	spend := func(us uint64, s tachyon.Status, stack ...tachyon.Frame) {
		at += us
		if err := w.WriteFrames(&tachyon.Sample{Thread: 1, Time: start + at, Status: s}, stack); err != nil {
			panic(err)
		}
	}
	const on = tachyon.HasGIL | tachyon.OnCPU
	for i := uint64(0); at < 10*second; i++ {
		used := extra * 1000
		if used > 0 {
			spend(used, on, tachyon.Frame{File: "/src/app/extra.go", Func: "main.extra", Line: 9})
		}
		work := 40_000 + 7919*i%20_000
		spend(work, on, tachyon.Frame{File: "/src/app/work.go", Func: "main.work", Line: 4})
		spend(100_000-work-used, 0, tachyon.Frame{Func: "[sleep]"},
			tachyon.Frame{File: "/usr/lib/go/src/runtime/time.go", Func: "time.Sleep", Line: 300},
			tachyon.Frame{File: "/src/app/rest.go", Func: "main.rest", Line: 5})
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
}
