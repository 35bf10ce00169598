package findings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// What goroutines do at one place says what is found, by the number of goroutines that do it all the time. They began with another function.
func TestPlaces(t *testing.T) {
	ask, serve := analyzetest.Place("main.ask", 9), analyzetest.Place("main.serve", 7)
	in := func(state string, frames ...tachyon.Frame) []tachyon.Frame {
		return slices.Concat([]tachyon.Frame{analyzetest.Wait(state)}, frames, []tachyon.Frame{ask, serve})
	}
	library := func(name string) tachyon.Frame {
		return tachyon.Frame{File: "/root/go/pkg/mod/golang.org/x/x@v1.0.0/x.go", Func: name, Line: 3}
	}
	answer := library("github.com/redis/go-redis/v9/push.(*Processor).ProcessPendingNotifications")
	compute := []tachyon.Frame{analyzetest.Place("main.compute", 9), analyzetest.Place("main.work", 7)}
	sync := []tachyon.Frame{analyzetest.Wait("syscall"), analyzetest.Place("os.(*File).Sync", 1), analyzetest.Place("main.flush", 9), analyzetest.Place("main.work", 7)}
	fetch := []tachyon.Frame{analyzetest.Wait("IO wait"), analyzetest.Place("main.fetch", 9), analyzetest.Place("main.work", 7)}
	for _, c := range []struct {
		name       string
		goroutines uint64
		lasts      uint64 // µs, then the next goroutine comes
		stack      []tachyon.Frame
		want       string
		beside     []tachyon.Frame // what one more goroutine does, with its wait frame if it waits
	}{
		{"Cond", 3, 4_000_000, in("sync.Cond.Wait", analyzetest.Place("sync.(*Cond).Wait", 1)), "wait main.ask", nil},
		{"a Cond for work", 1, 4_000_000, in("sync.Cond.Wait", analyzetest.Place("sync.(*Cond).Wait", 1)), "", nil},
		{"work from a select", 3, 4_000_000, in("select"), "", nil},
		{"requests", 4, 200_000, slices.Concat(in("chan receive"), handler), "wait main.ask", compute},
		{"requests for which nobody works", 4, 200_000, slices.Concat(in("chan receive"), handler), "", nil},
		{"requests while another goroutine syncs", 4, 200_000, slices.Concat(in("sync.Cond.Wait", analyzetest.Place("sync.(*Cond).Wait", 1)), handler), "fsync main.ask", sync},
		{"writers while another goroutine syncs", 12, 4_000_000, in("sync.WaitGroup.Wait", analyzetest.Place("sync.(*WaitGroup).Wait", 1)), "fsync main.ask", sync},
		{"equal loads while another goroutine waits for an answer", 12, 4_000_000, in("sync.WaitGroup.Wait", analyzetest.Place("sync.(*WaitGroup).Wait", 1)), "wait main.ask", fetch},
		{"a few equal loads", 1, 4_000_000, in("sync.WaitGroup.Wait", analyzetest.Place("sync.(*WaitGroup).Wait", 1)), "", fetch},
		{"a WaitGroup for which nobody works", 4, 4_000_000, in("sync.WaitGroup.Wait", analyzetest.Place("sync.(*WaitGroup).Wait", 1)), "", nil},
		{"work from a select while another goroutine syncs", 12, 4_000_000, in("select"), "", sync},
		{"streams of events", 20, 4_000_000, slices.Concat(in("chan receive"), handler), "", nil},
		{"sleeps", 3, 4_000_000, in("sleep", analyzetest.Place("time.Sleep", 1)), "sleep main.ask", nil},
		{"requests that sleep", 3, 200_000, slices.Concat(in("sleep", analyzetest.Place("time.Sleep", 1)), handler), "sleep main.ask", nil},
		{"a daemon", 1, 4_000_000, in("sleep", analyzetest.Place("time.Sleep", 1)), "idle", nil},
		{"a program", 3, 4_000_000, in("syscall", analyzetest.Place("os.(*Process).blockUntilWaitable", 1), analyzetest.Place("os.(*Process).wait", 1)), "exec main.ask", nil},
		{"semaphore", 3, 4_000_000, in("select", library("golang.org/x/sync/semaphore.(*Weighted).Acquire")), "pool main.ask", nil},
		{"a few answers beside a semaphore", 4, 200_000, slices.Concat(in("select", library("golang.org/x/sync/semaphore.(*Weighted).Acquire")), handler), "pool main.ask, peer main.fetch", slices.Concat([]tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("net/http.(*persistConn).roundTrip", 1), analyzetest.Place("main.fetch", 9)}, handler)},
		{"connections of go-redis", 4, 200_000, slices.Concat(in("IO wait", answer, library("github.com/redis/go-redis/v9.(*baseClient).initConn")), handler), "connect main.ask", slices.Concat(in("IO wait", answer), handler)},
		{"connections of database/sql", 4, 200_000, slices.Concat(in("IO wait", library("example.org/driver.(*connector).Connect"), analyzetest.Place("database/sql.(*DB).conn", 1)), handler), "connect main.ask", nil},
		{"connections of a DSN", 4, 200_000, slices.Concat(in("syscall", analyzetest.Place("database/sql.dsnConnector.Connect", 1)), handler), "connect main.ask", nil},
		{"connections of a client", 4, 200_000, slices.Concat(in("IO wait", library("example.org/amqp.Dial")), handler), "connect main.ask", nil},
		{"connections of fasthttp", 3, 4_000_000, in("select", library("github.com/valyala/fasthttp.(*HostClient).AcquireConn")), "pool main.ask", nil},
		{"workers of ants", 3, 4_000_000, in("sync.Cond.Wait", analyzetest.Place("sync.(*Cond).Wait", 1), library("github.com/panjf2000/ants/v2.(*poolCommon).retrieveWorker")), "pool main.ask", nil},
		{"goroutines of conc", 3, 4_000_000, in("chan send", library("github.com/sourcegraph/conc/pool.(*Pool).Go")), "pool main.ask, pool main.fetch", []tachyon.Frame{analyzetest.Wait("chan send"), library("github.com/sourcegraph/conc/pool.(*Pool).Go"), analyzetest.Place("main.fetch", 9)}},
		{"connections of pgxpool", 3, 4_000_000, in("select", library("golang.org/x/sync/semaphore.(*Weighted).Acquire"), library("github.com/jackc/puddle/v2.(*Pool[...]).acquire")), "pool main.ask", nil},
		{"requests that the program's own server answers", 4, 200_000, slices.Concat(in("select", library("github.com/nats-io/nats.go.(*Conn).newRequest")), handler), "wait main.ask", append(analyzetest.WaitFor("IO wait", 2), library("github.com/nats-io/nats.go.(*Conn).read"))},
		{"requests of which one syncs for all", 20, 200_000, slices.Concat(in("chan receive"), handler), "fsync main.ask", slices.Concat(sync[:2], []tachyon.Frame{ask, serve}, handler)},
		{"limiter", 3, 4_000_000, in("select", library("golang.org/x/time/rate.(*Limiter).wait")), "pool main.ask", nil},
	} {
		r := analyzetest.Record(t)
		r.Objects = append(r.Objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectConnection, Name: "tcp 127.0.0.1:4222 from 127.0.0.1"}, tachyon.Object{Number: 2, Kind: tachyon.ObjectConnection, Name: "tcp 127.0.0.1:4222"})
		id := uint64(0)
		for n := range c.goroutines {
			for from := uint64(0); from < 4_000_000; from += c.lasts {
				id++
				r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "main.main"})
				for at := from; at < from+c.lasts; at += 10_000 {
					does(r, id, at+n, at%400_000 == 50_000, c.stack) // it looks at something now and then
				}
			}
		}
		for at := uint64(0); at < 4_000_000 && c.beside != nil; at += 10_000 {
			r.Do(id+1, at, c.beside...)
		}
		list := foundIn(r, tachyon.Session{GOMAXPROCS: 4})
		testenv.Same(t, c.name, kinds(list), c.want)
		testenv.FailIf(t, c.name == "connections of pgxpool" && !strings.Contains(list[0].Text, "a free connection of pgxpool"), "%+v", list)
	}
}

// Goroutines that wait for the answer to what they ask for in a loop, by the text, are told, with what another one does meanwhile. Those that wait for the next message
// of something that they have are not, nor those that wait once.
func TestAnswersOfOthers(t *testing.T) {
	sleep := analyzetest.Wait("sleep")
	const asks, takes = "f := log.Apply()", "log := log"
	for _, c := range []struct {
		name, given, loop, state string
		callers                  uint64
		work                     tachyon.Frame // what another goroutine does in six of ten ticks, in main.apply
		want                     string
	}{
		{"an answer", asks, "for", "select", 12, sleep, "Goroutines wait in [select] at main.put main.go:6: 46.7s, 94 % of the time that was not idle; meanwhile 0.51 goroutines on average slept in main.apply main.apply.go:3."},
		{"the next message", takes, "for", "select", 12, sleep, ""},
		{"once", asks, "if", "select", 12, sleep, ""},
		{"a group", takes, "for", "sync.WaitGroup.Wait", 12, sleep, "Goroutines wait in [sync.WaitGroup.Wait] at main.put main.go:6: 46.7s, 94 % of the time that was not idle; meanwhile 0.51 goroutines on average slept in main.apply main.apply.go:3."},
		{"one caller", asks, "for", "select", 1, sleep, ""},
		{"all cores compute", asks, "for", "select", 12, analyzetest.Place("main.hash", 2), ""},
	} {
		text := fmt.Sprintf("package main\n\nfunc put(log *Log) {\n\t%s true {\n\t\t%s\n\t\tf.Error()\n\t}\n}\n", c.loop, c.given)
		read := func(name string) *source.File {
			if name != "main.go" {
				return nil
			}
			return &source.File{Text: []byte(text)}
		}
		r := analyzetest.Record(t)
		wait := []tachyon.Frame{analyzetest.Wait(c.state), {File: "/root/go/pkg/mod/example.org/raft@v1.0.0/future.go", Func: "example.org/raft.(*future).Error", Line: 9}, {File: "main.go", Func: "main.put", Line: 6}, analyzetest.Place("main.serve", 9)}
		for id := range c.callers {
			r.Goroutine(tachyon.Goroutine{ID: id + 1, CreatedBy: "main.main"})
		}
		for at := uint64(0); at < 4_000_000; at += 10_000 {
			for id := range c.callers {
				does(r, id+1, at+id, at%400_000 == 50_000, wait)
			}
			id := 20 + at/100_000
			if at%100_000 == 0 {
				r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "main.main"})
			}
			if at/10_000%10 < 6 {
				r.Do(id, at, c.work, analyzetest.Place("main.apply", 3))
			}
		}
		got := ""
		for _, x := range foundBy(r.Finish(tachyon.Session{Source: "native", Duration: 4 * time.Second, GOMAXPROCS: 1}), nil, "x.tach", read) {
			if x.Kind == Wait {
				got += x.Text
			}
		}
		testenv.Same(t, c.name, got, c.want)
	}
}

// Goroutines that wait to run need more cores than GOMAXPROCS, if the program may use them and others do not have them.
func TestProcs(t *testing.T) {
	for _, c := range []struct {
		name  string
		procs int
		cpus  float64
		busy  uint64 // of ten ticks: the goroutine has no core
		rests uint64 // of ten ticks: nobody needs a core
		needs uint64 // goroutines that need one
		locks uint64 // goroutines that wait for a lock meanwhile
		want  string
	}{
		{"too few", 1, 2, 0, 0, 3, 0, "cpu The CPU is the limit: GOMAXPROCS is 1, and the program may use 2 cores. Goroutines wait to run: 7.98s, 67 % of the time that was not idle; 2.00 goroutines on average wait."},
		{"a quota", 1, 2.5, 0, 0, 3, 0, "cpu The CPU is the limit: GOMAXPROCS is 1, and the program may use 2.5 cores. Goroutines wait to run: 7.98s, 67 % of the time that was not idle; 2.00 goroutines on average wait."},
		{"others have a part", 1, 2, 3, 0, 3, 0, "cpu The CPU is the limit: GOMAXPROCS is 1, and the program may use 2 cores. Goroutines wait to run: 9.17s, 77 % of the time that was not idle; 2.29 goroutines on average wait."},
		{"others have the cores", 1, 2, 7, 0, 3, 0, "others"},
		{"others have the cores, and many wait for locks", 2, 2, 7, 0, 9, 20, "lock, others"},
		{"an early version's file", 1, 0, 0, 0, 3, 0, "cpu (a note)"},
		{"all that there are", 1, 1, 0, 0, 3, 0, "cpu (a note)"},
		{"half a core more", 1, 1.5, 0, 0, 3, 0, "cpu (a note)"},
		{"hardly busy", 1, 2, 0, 6, 3, 0, ""},
		{"hardly busy, as far as is seen", 1, 2, 0, 4, 5, 0, "cpu The CPU is the limit: GOMAXPROCS is 1, and the program may use 2 cores. Goroutines wait to run: 9.60s, 48 % of the time that was not idle; 2.40 goroutines on average wait."},
		{"one goroutine", 1, 2, 4, 0, 1, 0, "others"},
		{"a lock matters more", 1, 2, 0, 0, 3, 30, "lock, cpu (a note)"},
	} {
		r := analyzetest.Record(t)
		work := []tachyon.Frame{analyzetest.Place("main.work", 7), analyzetest.Place("main.main", 3)}
		for tick := range uint64(400) {
			for id := range c.locks {
				r.Add(id+10, tick*10_000, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 0), analyzetest.Place("main.get", 5))...)
			}
			for id := range c.needs {
				switch {
				case tick%10 < c.rests:
					r.Add(id+1, tick*10_000, 0, append(analyzetest.WaitFor("chan receive", 0), analyzetest.Place("main.next", 5))...)
				case tick%c.needs != id:
					r.Add(id+1, tick*10_000, tachyon.GILRequested, append([]tachyon.Frame{analyzetest.Wait("runnable")}, work...)...)
				case tick%10 < c.busy:
					r.Add(id+1, tick*10_000, tachyon.HasGIL, work...)
				default:
					r.Add(id+1, tick*10_000, analyzetest.Running, work...)
				}
			}
		}
		list := foundIn(r, tachyon.Session{GOMAXPROCS: c.procs, CPUs: c.cpus})
		for i, x := range list {
			list[i].Function = ""
			if x.Kind == CPU {
				list[i].Function = map[bool]string{false: x.Text, true: "(a note)"}[x.Note]
			}
		}
		testenv.Same(t, c.name, kinds(list), c.want)
	}
}

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
		{"a client that does not read", writes, 1, 1, "; past it, 1.00 goroutines on average waited for client 10.2.3.4 of :8080 to read what it writes in main.write "},
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

// A pool that is too small is one finding, at whichever lines goroutines wait for it, also if none of these has much of the time.
func TestPoolOfTwoLines(t *testing.T) {
	query := analyzetest.Place("database/sql.(*DB).query", 1700)
	ask := func(stack ...tachyon.Frame) []tachyon.Frame {
		return append(append(analyzetest.WaitFor("select", 0), analyzetest.Place("database/sql.(*DB).conn", 1300), query), stack...)
	}
	add, total := analyzetest.Place("main.add", 30), analyzetest.Place("main.total", 22)
	reads := append(analyzetest.WaitFor("IO wait", 0), analyzetest.Place("database/sql.(*DB).queryDC", 1800), query, add)
	for goroutines, others := range map[uint64]string{5: "others wait for theirs: 7.98s at main.total main.total.go:22", 16: "others wait for theirs: 51.9s at 13 more lines"} {
		r := analyzetest.Record(t)
		for tick := range uint64(400) {
			r.Add(99, tick*10_000, 0, append(analyzetest.WaitFor("select", 0), analyzetest.Place("database/sql.(*DB).connectionOpener", 1200))...)
			for id := range goroutines {
				stack := ask(add)
				switch {
				case tick/10%3 == id:
					stack = reads
				case id > 2 && goroutines == 5:
					stack = ask(total)
				case id > 2:
					stack = ask(analyzetest.Place(fmt.Sprint("main.handle", id), 22))
				}
				r.Add(id+1, tick*10_000, tachyon.Moved, stack...)
			}
		}
		list := foundIn(r, tachyon.Session{Markers: true, GOMAXPROCS: 4})
		testenv.FailIf(t, len(list) != 1 || list[0].Kind != Pool || list[0].Share < 0.75 || !slices.Contains(list[0].Evidence, others), "%+v", list)
	}
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
