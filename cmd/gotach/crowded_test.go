package main

import (
	"fmt"
	"os"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// crowded OUT writes a profile of 4 s that has much of everything: waits at 12 places, 8 functions that use a CPU, four
// locks, goroutines that leak, three that never move, HTTP requests of which some are slow, and each kind of state.
func crowded() {
	const start = 1_795_234_224_000_000
	w, err := writer.Create(os.Args[1], writer.Options{Start: start, Interval: 1000})
	if err != nil {
		panic(err)
	}
	own := func(function string, line int32) tachyon.Frame {
		return tachyon.Frame{File: "/src/app/app.go", Func: "main." + function, Line: line}
	}
	lib := func(function, file string) tachyon.Frame {
		return tachyon.Frame{File: "/usr/lib/go/src/" + file, Func: function, Line: 7}
	}
	add := func(id, ms uint64, s tachyon.Status, stack ...tachyon.Frame) {
		if err := w.WriteFrames(&tachyon.Sample{Thread: id, Time: start + 1000*ms, Status: s}, stack); err != nil {
			panic(err)
		}
	}
	const on = tachyon.HasGIL | tachyon.OnCPU
	var goroutines []tachyon.Goroutine
	for ms := uint64(1); ms <= 4000; ms++ {
		for i := range uint64(12) {
			add(100+i, ms, 0, tachyon.Frame{Func: "[select]"}, own(fmt.Sprintf("wait%d", i), 10))
		}
		add(200, ms, on, own(fmt.Sprintf("work%d", ms%8), 20))
		add(201, ms, tachyon.HasGIL, own("late", 30))
		add(202, ms, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, own("ready", 31))
		add(203, ms, tachyon.Unknown, tachyon.Frame{Func: "[syscall]"}, own("call", 32))
		for i := range uint64(4) {
			if ms%50 < 30 {
				add(300+i, ms, 0, tachyon.Frame{Func: "[sleep]"}, own("load", 60), own(fmt.Sprintf("(*cache%d).refresh", i), 42))
				add(310+i, ms, 0, tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: int32(1 + i)}, lib("sync.(*Mutex).Lock", "sync/mutex.go"), own(fmt.Sprintf("(*cache%d).get", i), 31))
			} else {
				add(300+i, ms, 0, tachyon.Frame{Func: "[sleep]"}, own(fmt.Sprintf("(*cache%d).refresh", i), 45))
				add(310+i, ms, 0, tachyon.Frame{Func: "[sleep]"}, own(fmt.Sprintf("(*cache%d).get", i), 33))
			}
		}
		serve := []tachyon.Frame{lib("net/http.serverHandler.ServeHTTP", "net/http/server.go"), lib("net/http.(*conn).serve", "net/http/server.go")}
		if phase := ms % 100; phase >= 20 && phase < 30 || ms%1000 > 930 {
			add(400, ms, 0, append([]tachyon.Frame{{Func: "[sleep]"}, own("query", 50)}, serve...)...)
		} else {
			add(400, ms, 0, append([]tachyon.Frame{{Func: "[IO wait]"}, lib("bufio.(*Reader).Peek", "bufio/bufio.go")}, serve[1:]...)...)
		}
		for i := range uint64(3) {
			add(600+i, ms, 0, tachyon.Frame{Func: "[chan receive]"}, own(fmt.Sprintf("watch%d", i), 80))
		}
		for i := range ms / 200 {
			add(500+i, ms, 0, tachyon.Frame{Func: "[chan receive]"}, own("leak", 70))
		}
	}
	for i := range uint64(3) {
		goroutines = append(goroutines, tachyon.Goroutine{ID: 600 + i, CreatedBy: "main.main", CreatedAt: fmt.Sprint("/src/app/app.go:", 4+i), Last: 4_000_000})
	}
	for i := range uint64(20) {
		goroutines = append(goroutines, tachyon.Goroutine{ID: 500 + i, CreatedBy: "main.serve", CreatedAt: "/src/app/app.go:9", First: (i + 1) * 200_000, Last: 4_000_000, FirstWeight: 1000})
	}
	err = w.AddMetadata(tachyon.KindSession, tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	if err == nil {
		var objects []tachyon.Object
		for i := range int32(4) {
			objects = append(objects, tachyon.Object{Number: 1 + i, Kind: tachyon.ObjectMutex, Addr: 0xc000010000 + 64*uint64(i)})
		}
		err = w.WriteRecords(&tachyon.Records{Objects: objects, Goroutines: goroutines})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
}
