package main

import (
	"os"
	"strconv"
	"strings"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// serves OUT [N] writes a profile of 200 HTTP requests of 10 ms. Four of them sleep for 40 ms more. N goroutines wait beside
// them in the whole session, which is 3 s longer then.
func serves() {
	const start = 1_795_234_224_000_000
	w, err := writer.Create(os.Args[1], writer.Options{Start: start, Interval: 1000})
	if err != nil {
		panic(err)
	}
	serve := tachyon.Frame{File: "/usr/lib/go/src/net/http/server.go", Func: "net/http.serverHandler.ServeHTTP", Line: 3000}
	peek := tachyon.Frame{File: "/usr/lib/go/src/bufio/bufio.go", Func: "bufio.(*Reader).Peek", Line: 148}
	conn := tachyon.Frame{File: "/usr/lib/go/src/net/http/server.go", Func: "net/http.(*conn).serve", Line: 2000}
	own := func(function string) tachyon.Frame {
		return tachyon.Frame{File: "/src/app/handler.go", Func: function, Line: 12}
	}
	g := tachyon.Goroutine{ID: 7, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "/usr/lib/go/src/net/http/server.go:3400", FirstWeight: 1000}
	at := uint64(0)
	rests, _ := strconv.Atoi(strings.Join(os.Args[2:], ""))
	spend := func(ms uint64, s tachyon.Status, stack ...tachyon.Frame) {
		for range ms {
			at += 1000
			if err := w.WriteFrames(&tachyon.Sample{Thread: 7, Time: start + at, Status: s}, stack); err != nil {
				panic(err)
			}
			for i := range rests {
				if err := w.WriteFrames(&tachyon.Sample{Thread: uint64(8 + i), Time: start + at}, []tachyon.Frame{{Func: "[chan receive]"}, own("main.watch"), own("main.start")}); err != nil {
					panic(err)
				}
			}
		}
	}
	for i := range 200 {
		spend(5, 0, tachyon.Frame{Func: "[IO wait]"}, peek, conn)
		g.Labels = append(g.Labels, tachyon.LabelSpan{From: at + 1, Labels: map[string]string{"request": strconv.Itoa(i)}})
		spend(4, tachyon.HasGIL|tachyon.OnCPU, own("main.parse"), own("main.handle"), serve, conn)
		spend(6, 0, tachyon.Frame{Func: "[select]"}, own("main.query"), own("main.handle"), serve, conn)
		if i%50 == 20 {
			spend(40, 0, tachyon.Frame{Func: "[sleep]"}, own("main.backoff"), own("main.handle"), serve, conn)
		}
		g.Labels = append(g.Labels, tachyon.LabelSpan{From: at + 1, Labels: map[string]string{}})
	}
	spend(5, 0, tachyon.Frame{Func: "[IO wait]"}, peek, conn)
	if rests > 0 {
		spend(3000, 0, tachyon.Frame{Func: "[IO wait]"}, peek, conn)
	}
	err = w.AddMetadata(tachyon.KindSession, tachyon.Session{Source: "native", Markers: true})
	if err == nil {
		list := []tachyon.Goroutine{g}
		for i := range rests {
			list = append(list, tachyon.Goroutine{ID: uint64(8 + i), CreatedBy: "main.main", CreatedAt: "/src/app/main.go:9", FirstWeight: 1000})
		}
		err = w.WriteRecords(&tachyon.Records{Goroutines: list})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
}
