package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Holds that are too short to tell one from the next are told by what is done past the lock, at the line that calls the library which takes
// it. What several do at a time, or one now and then, is not what the holder does.
func TestPast(t *testing.T) {
	put := []tachyon.Frame{analyzetest.Place("main.put", 5), analyzetest.Place("main.serve", 7)}
	library := tachyon.Frame{File: "/root/go/pkg/mod/go.etcd.io/bbolt@v1.5.0/db.go", Func: "go.etcd.io/bbolt.(*DB).Update", Line: 3}
	waits := slices.Concat(analyzetest.WaitFor("sync.Mutex.Lock", 1), []tachyon.Frame{library}, put)
	syncs := slices.Concat([]tachyon.Frame{analyzetest.Wait("syscall"), analyzetest.Place("os.(*File).Sync", 1), library}, put)
	sends := slices.Concat(analyzetest.WaitFor("IO wait", 2), []tachyon.Frame{analyzetest.Place("main.write", 4), library}, put)
	writes := slices.Concat(analyzetest.WaitFor("IO wait", 3), []tachyon.Frame{{File: "/usr/lib/go/src/internal/poll/fd_poll_runtime.go", Func: "internal/poll.(*pollDesc).waitWrite", Line: 2}, sends[1], library}, put)
	for _, c := range []struct {
		name  string
		does  []tachyon.Frame
		past  uint64 // goroutines at a time
		every uint64 // ticks
		want  string
	}{
		{"one at a time", syncs, 1, 1, "; past it, 1.00 goroutines on average waited until data were on the disk (fsync) in main.put "},
		{"the library calls the program", sends, 1, 1, "; past it, 1.00 goroutines on average waited for 10.2.3.4:24 in main.write "},
		{"a client that does not read", writes, 1, 1, "; past it, 1.00 goroutines on average waited for :8080 from 10.2.3.4 to read what it writes in main.write "},
		{"two", syncs, 2, 1, ""},
		{"now and then", syncs, 1, 3, ""},
	} {
		r := analyzetest.Record(t)
		r.Objects = append(r.Objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000}, tachyon.Object{Number: 2, Kind: tachyon.ObjectConnection, Name: "tcp 10.2.3.4:24"}, tachyon.Object{Number: 3, Kind: tachyon.ObjectConnection, Name: "tcp :8080 from 10.2.3.4"})
		for id := range uint64(8) {
			r.Goroutine(tachyon.Goroutine{ID: id + 1, CreatedBy: "main.main"})
		}
		for tick := range uint64(400) {
			for id := range uint64(8) {
				stack := waits
				if (id+8-tick%8)%(8/c.past) == 0 && tick%c.every == 0 {
					stack = c.does
				}
				r.Add(id+1, tick*10_000, tachyon.Moved, stack...)
			}
		}
		list := foundIn(r, tachyon.Session{Markers: true, GOMAXPROCS: 4})
		testenv.StopIf(t, len(list) == 0 || list[0].Kind != Lock, "%s: %+v", c.name, list)
		testenv.FailIf(t, strings.Contains(list[0].Text, "past it") != (c.want != "") || !strings.Contains(list[0].Text, c.want), "%s: %q", c.name, list[0].Text)
	}
}

// A pool that is too small is one finding, at whichever lines goroutines wait for it.
func TestPoolOfTwoLines(t *testing.T) {
	query := analyzetest.Place("database/sql.(*DB).query", 1700)
	ask := func(stack ...tachyon.Frame) []tachyon.Frame {
		return append(append(analyzetest.WaitFor("select", 0), analyzetest.Place("database/sql.(*DB).conn", 1300), query), stack...)
	}
	add, total := analyzetest.Place("main.add", 30), analyzetest.Place("main.total", 22)
	reads := append(analyzetest.WaitFor("IO wait", 0), analyzetest.Place("database/sql.(*DB).queryDC", 1800), query, add)
	r := analyzetest.Record(t)
	for tick := range uint64(400) {
		r.Add(9, tick*10_000, 0, append(analyzetest.WaitFor("select", 0), analyzetest.Place("database/sql.(*DB).connectionOpener", 1200))...)
		for id := range uint64(5) {
			stack := ask(add)
			switch {
			case tick/10%3 == id:
				stack = reads
			case id > 2:
				stack = ask(total)
			}
			r.Add(id+1, tick*10_000, tachyon.Moved, stack...)
		}
	}
	list := foundIn(r, tachyon.Session{Markers: true, GOMAXPROCS: 4})
	testenv.FailIf(t, len(list) != 1 || list[0].Kind != Pool || list[0].Share < 0.75 || !slices.Contains(list[0].Evidence, "others wait for theirs: 7.98s at main.total main.total.go:22"), "%+v", list)
}

// Goroutines of a library that leak are told at the line of the program that calls what starts them. Those of the program are told where
// they wait.
func TestLeakOfLibrary(t *testing.T) {
	file := "/root/go/pkg/mod/google.golang.org/grpc@v1.85.0/stream.go"
	start := tachyon.Frame{File: file, Func: "google.golang.org/grpc.newStream", Line: 20}
	last, other := analyzetest.Place("main.last", 24), analyzetest.Place("main.other", 30)
	for _, c := range []struct {
		name     string
		waits    tachyon.Frame
		by, want string
		started  bool // the text says where what starts them is called
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
		list := foundIn(r, tachyon.Session{GOMAXPROCS: 4})
		testenv.FailIf(t, len(list) == 0 || list[0].Kind != Leak || list[0].Function != c.want || strings.HasSuffix(list[0].Text, " What starts them is called at main.last main.last.go:24.") != c.started, "%s: %+v", c.name, list)
	}
}
