package main

import (
	"os"
	"strconv"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// leaky OUT writes a profile of 10 s. Every second a goroutine leaks, and a worker joins a pool. Each
// worker has something to do every second. With a second argument the runtime has proved what leaks.
func leaky() {
	const start, second = 1_795_234_224_000_000, 1_000_000
	w, err := writer.Create(os.Args[1], writer.Options{Start: start, Interval: 1000})
	if err != nil {
		panic(err)
	}
	frame := func(function string, line int32) tachyon.Frame {
		return tachyon.Frame{File: "/src/app/" + function[len("main."):] + ".go", Func: function, Line: line}
	}
	wait := tachyon.Frame{Func: "[chan receive]"}
	leak, idle, work := frame("main.fetch", 31), frame("main.worker", 12), frame("main.work", 50)
	add := func(id, at uint64, s tachyon.Status, stack ...tachyon.Frame) {
		if err := w.WriteFrames(&tachyon.Sample{Thread: id, Time: start + at, Status: s}, stack); err != nil {
			panic(err)
		}
	}
	var list []tachyon.Goroutine
	for i := range uint64(10) {
		begin := (i + 1) * second
		for j, by := range []string{"main.serve", "main.grow"} {
			list = append(list, tachyon.Goroutine{
				ID: 2*i + uint64(j) + 10, CreatedBy: by, CreatedAt: "/src/app/main.go:" + strconv.Itoa(7+j),
				First: begin, Last: 10 * second, FirstWeight: 1000,
			})
		}
		for at := begin; at <= 10*second; at += second / 50 {
			add(2*i+10, at, 0, wait, leak)
			if at%second == second/2 {
				add(2*i+11, at, tachyon.HasGIL|tachyon.OnCPU, work, idle)
			} else {
				add(2*i+11, at, 0, wait, idle)
			}
		}
	}
	session := tachyon.Session{Source: "native", Markers: true}
	if len(os.Args) > 2 {
		session.Leaks = &tachyon.ProvenLeaks{Count: 9, Groups: []tachyon.ProvenLeak{
			{Count: 9, Frames: []tachyon.LeakFrame{{Func: leak.Func, File: leak.File, Line: leak.Line}}},
		}}
	}
	err = w.AddMetadata(tachyon.KindSession, session)
	if err == nil {
		err = w.WriteRecords(&tachyon.Records{Goroutines: list})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
}
