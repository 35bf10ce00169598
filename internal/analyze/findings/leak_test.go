package findings

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/tachyon"
)

// Goroutines of a library that leak are told at the line of the program that calls what starts them. Those of the program are told where
// they wait.
func TestLeakOfLibrary(t *testing.T) {
	file := "/root/go/pkg/mod/google.golang.org/grpc@v1.85.0/stream.go"
	start := tachyon.Frame{File: file, Func: "google.golang.org/grpc.newStream", Line: 20}
	last, other := analyzetest.Place("main.last", 24), analyzetest.Place("main.other", 30)
	for _, c := range []struct {
		name    string
		waits   tachyon.Frame
		by      string
		want    string
		started bool // the text says where what starts them is called
	}{
		{"of a library", tachyon.Frame{File: file, Func: "google.golang.org/grpc.newStream.func4", Line: 29}, start.Func, "main.last", true},
		{"started by another function", tachyon.Frame{File: file, Func: "google.golang.org/grpc.newStream.func4", Line: 29}, "google.golang.org/grpc.keep", "google.golang.org/grpc.newStream.func4", false},
		{"started by the program", tachyon.Frame{File: file, Func: "google.golang.org/grpc.newStream.func4", Line: 29}, "main.last", "google.golang.org/grpc.newStream.func4", false},
		{"of the program", analyzetest.Place("main.watch", 9), start.Func, "main.watch", false},
	} {
		const length = 4_000_000
		r := analyzetest.Record(t)
		for at := uint64(0); at < length; at += 10_000 {
			r.Add(1, at, analyzetest.Running, start, last) // longer than for the other one
			r.Add(1, at+1_000, analyzetest.Running, other)
			r.Add(1, at+2_000, analyzetest.Running, start, other)
			if id := at/40_000 + 10; at%40_000 == 0 {
				r.Goroutine(tachyon.Goroutine{ID: id, Parent: 1, CreatedBy: c.by, CreatedAt: "stream.go:20", First: at + 5_000, Last: length, FirstWeight: 100})
			}
			for id := uint64(10); id <= at/40_000+10; id++ {
				r.Add(id, at+5_000, 0, analyzetest.Wait("select"), c.waits)
			}
		}
		list := foundIn(t, r, tachyon.Session{Source: "native", GOMAXPROCS: 4, Duration: length * time.Microsecond})
		if len(list) == 0 || list[0].Kind != Leak || list[0].Function != c.want || strings.HasSuffix(list[0].Text, " What starts them is called at main.last main.last.go:24.") != c.started {
			t.Errorf("%s: %+v", c.name, list)
		}
	}
}
