package main

import (
	"os"
	"strconv"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// contends OUT [CONNECTIONS] writes a profile of a lock that a goroutine holds for 30 ms, again and again, while two
// others wait for it, and of a channel. Each connection has a channel too.
func contends() {
	connections := 0
	if len(os.Args) > 2 {
		var err error
		if connections, err = strconv.Atoi(os.Args[2]); err != nil {
			panic(err)
		}
	}
	writeContended(os.Args[1], connections)
}

func writeContended(path string, connections int) {
	const start = 1_795_234_224_000_000
	w, err := writer.Create(path, writer.Options{Start: start, Interval: 1000})
	if err != nil {
		panic(err)
	}
	own := func(function string, line int32) tachyon.Frame {
		return tachyon.Frame{File: "/src/app/cache.go", Func: function, Line: line}
	}
	wait := func(reason string, object int32) []tachyon.Frame {
		return []tachyon.Frame{{Func: "[" + reason + "]", Line: object}, {File: "/usr/lib/go/src/sync/mutex.go", Func: "sync.(*Mutex).Lock", Line: 46}}
	}
	add := func(id, ms uint64, s tachyon.Status, stack ...tachyon.Frame) {
		if err := w.WriteFrames(&tachyon.Sample{Thread: id, Time: start + 1000*ms, Status: s}, stack); err != nil {
			panic(err)
		}
	}
	for ms := uint64(1); ms <= 1000; ms++ {
		if phase := ms % 50; phase < 30 {
			add(7, ms, 0, tachyon.Frame{Func: "[sleep]"}, own("main.load", 60), own("main.(*cache).refresh", 42))
			for _, id := range []uint64{8, 9} {
				add(id, ms, 0, append(wait("sync.Mutex.Lock", 1), own("main.(*cache).get", 31), own("main.serve", 12))...)
			}
		} else {
			add(7, ms, 0, tachyon.Frame{Func: "[sleep]"}, own("main.(*cache).refresh", 45))
			for _, id := range []uint64{8, 9} {
				add(id, ms, tachyon.HasGIL|tachyon.OnCPU, own("main.serve", 14))
			}
		}
		add(10, ms, 0, tachyon.Frame{Func: "[chan receive]", Line: 2}, own("main.worker", 70))
		for i := range connections {
			add(uint64(20+i), ms, 0, tachyon.Frame{Func: "[chan receive]", Line: int32(20 + i)}, own("main.(*conn).read", 80))
		}
	}
	objects := []tachyon.Object{
		{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000},
		{Number: 2, Kind: tachyon.ObjectChannel, Addr: 0x5c0100, Static: 0x5c0100, Symbol: "main.jobs"},
	}
	for i := range connections {
		objects = append(objects, tachyon.Object{Number: int32(20 + i), Kind: tachyon.ObjectChannel, Addr: 0xc000020000 + 96*uint64(i)})
	}
	err = w.AddMetadata(tachyon.KindSession, tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	if err == nil {
		err = w.WriteRecords(&tachyon.Records{Objects: objects})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
}
