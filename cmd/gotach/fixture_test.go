package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	fixtureStart = 1_795_234_224_000_000 // µs
	onCPU        = tachyon.HasGIL | tachyon.OnCPU
)

// A fixture is a profile that a test makes. Times of samples are in ms since its start.
type fixture struct {
	w       *writer.Writer
	session tachyon.Session
	records tachyon.Records
	rename  func(tachyon.Frame) tachyon.Frame // nil: frames stay as they are
}

// fixtures are the profiles that scripts ask for, by the name of the command that makes them.
var fixtures = map[string]func(f *fixture, args []string){
	"quota": quota, "leaky": leaky, "differs": differs, "serves": serves, "contends": contends, "crowded": crowded,
}

// NAME OUT ARG... writes a fixture.
func fixtureCommand(fill func(*fixture, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) == 0 {
			ts.Fatalf("usage: NAME OUT ARG...")
		}
		writeFixture(ts.MkAbs(args[0]), fill, args[1:]...)
	}
}

func writeFixture(path string, fill func(*fixture, []string), args ...string) {
	w := testenv.Must(writer.Create(path, writer.Options{Start: fixtureStart, Interval: 1000, Uncompressed: true}))
	f := &fixture{w: w, session: tachyon.Session{Source: "native", Markers: true}}
	fill(f, args)
	if f.session.Source != "" {
		must(w.AddMetadata(tachyon.KindSession, f.session))
	}
	must(w.WriteRecords(&f.records))
	must(w.Close())
}

// must ends the tests at an error that none of them expects.
func must(err error) { testenv.Must(0, err) }

func (f *fixture) add(id, ms uint64, s tachyon.Status, stack ...tachyon.Frame) {
	if f.rename != nil {
		for i := range stack {
			stack[i] = f.rename(stack[i])
		}
	}
	f.put(id, tachyon.User, 1000*ms, s, stack...)
}

// put adds a sample at a time in µs.
func (f *fixture) put(id uint64, interpreter uint32, us uint64, s tachyon.Status, stack ...tachyon.Frame) {
	must(f.w.WriteFrames(&tachyon.Sample{Thread: id, Interpreter: interpreter, Time: fixtureStart + us, Status: s}, stack))
}

// object names the object with a number.
func (f *fixture) object(number int, kind string, addr uint64, symbol string) {
	o := tachyon.Object{Number: int32(number), Kind: kind, Addr: addr, Symbol: symbol}
	if symbol != "" {
		o.Static = addr
	}
	f.session.Objects = tachyon.AllObjects
	f.records.Objects = append(f.records.Objects, o)
}

func (f *fixture) goroutine(id uint64, by, at string) *tachyon.Goroutine {
	f.records.Goroutines = append(f.records.Goroutines, tachyon.Goroutine{ID: id, CreatedBy: by, CreatedAt: at, FirstWeight: 1000})
	return &f.records.Goroutines[len(f.records.Goroutines)-1]
}

// own returns a frame of the program, lib one of the standard library, and wait one of a wait reason.
func own(file, function string, line int) tachyon.Frame {
	return tachyon.Frame{File: "/src/app/" + file, Func: "main." + function, Line: int32(line)}
}

func lib(file, function string, line int) tachyon.Frame {
	return tachyon.Frame{File: "/usr/lib/go/src/" + file, Func: function, Line: int32(line)}
}

func wait(reason string) tachyon.Frame { return tachyon.Frame{Func: "[" + reason + "]"} }

// locked returns a wait for an object, and where it is.
func locked(reason string, object int, at tachyon.Frame) []tachyon.Frame {
	frame := wait(reason)
	frame.Line = int32(object)
	return []tachyon.Frame{frame, lib("sync/mutex.go", "sync.(*Mutex).Lock", 46), at}
}

// quota is a program that was throttled by a CPU quota.
func quota(f *fixture, _ []string) {
	main, hash := tachyon.Frame{File: "/src/main.go", Func: "main.main", Line: 9}, tachyon.Frame{File: "/src/main.go", Func: "main.hash", Line: 20}
	lock := tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 3}
	mark := tachyon.Frame{File: "/go/src/runtime/mgc.go", Func: "runtime.gcBgMarkWorker", Line: 1400}
	f.add(1, 0, onCPU, hash, main)
	f.add(1, 600, onCPU, hash, main)
	f.add(1, 2000, tachyon.HasGIL, hash, main)
	f.add(18, 0, 0, lock, main)
	f.add(18, 1500, 0, lock, main)
	f.add(18, 2000, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, hash, main)
	f.put(3, tachyon.Runtime, 0, 0, wait("GC worker (idle)"), mark)
	f.put(3, tachyon.Runtime, 1_900_000, 0, wait("GC worker (idle)"), mark)
	f.put(3, tachyon.Runtime, 2_000_000, onCPU, mark)
	f.put(tachyon.FirstPseudo, tachyon.Process, 1_950_000, 0, tachyon.Frame{Func: tachyon.FuncScheduler})
	f.put(tachyon.FirstPseudo, tachyon.Process, 2_000_000, tachyon.OnCPU, tachyon.Frame{Func: tachyon.FuncScheduler})
	f.session = tachyon.Session{
		Program: "/srv/app", GoVersion: "go1.26.8", GOOS: "linux", GOARCH: "amd64", GOMAXPROCS: 2, CPUs: 0.5, Host: "box", PID: 4711,
		Start: time.UnixMicro(fixtureStart).UTC(), Duration: 2 * time.Second, Source: "native", Rate: 1000, RateReached: 400, Budget: 1,
		Markers: true, Error: "out.tach: no space left on device", Kept: "p99 of /checkout was 800ms",
		Counts: tachyon.Counts{
			TicksAsked: 2000, TicksReached: 800, TicksForBudget: 900, TicksIdle: 250, Samples: 11, MaxGoroutines: 2,
			Cost: 15 * time.Millisecond, SignalTaken: 2, NotSeen: 250 * time.Millisecond, ProcessCPU: 760 * time.Millisecond,
			Throttled: 1300 * time.Millisecond, ThrottledPeriods: 18,
		},
	}
}

// writeFile writes a finished profile of some samples that are 1 ms apart, the number-th of its session.
func writeFile(t testing.TB, path string, number, samples int) {
	start := time.UnixMicro(fixtureStart + int64(number)*1_000_000).UTC()
	w := testenv.Must(writer.Create(path, writer.Options{Start: uint64(start.UnixMicro()), Interval: 1000}))
	for i := range uint64(samples) {
		must(w.WriteFrames(&tachyon.Sample{Thread: 1, Time: uint64(start.UnixMicro()) + 1000*(i+1), Status: onCPU}, []tachyon.Frame{own("main.go", "work", 3)}))
	}
	must(w.AddMetadata(tachyon.KindSession, tachyon.Session{Program: "app", PID: 7, Host: "host", Rate: 1000, Start: start, Duration: time.Second}))
	must(w.Close())
}

// contends [CONNECTIONS] has a lock that a goroutine holds for 30 ms, again and again, while two others wait for it, and a
// channel. Each connection has a channel too.
func contends(f *fixture, args []string) {
	connections, _ := strconv.Atoi(strings.Join(args, ""))
	const file = "cache.go"
	for ms := uint64(1); ms <= 1000; ms++ {
		load, held := []tachyon.Frame{wait("sleep"), own(file, "(*cache).refresh", 45)}, ms%50 < 30
		if held {
			load = []tachyon.Frame{wait("sleep"), own(file, "load", 60), own(file, "(*cache).refresh", 42)}
		}
		f.add(7, ms, 0, load...)
		for id := uint64(8); id <= 9; id++ {
			if held {
				f.add(id, ms, 0, append(locked("sync.Mutex.Lock", 1, own(file, "(*cache).get", 31)), own(file, "serve", 12))...)
			} else {
				f.add(id, ms, onCPU, own(file, "serve", 14))
			}
		}
		f.add(10, ms, 0, tachyon.Frame{Func: "[chan receive]", Line: 2}, own(file, "worker", 70))
		for i := range connections {
			f.add(uint64(20+i), ms, 0, tachyon.Frame{Func: "[chan receive]", Line: int32(20 + i)}, own(file, "(*conn).read", 80))
		}
	}
	f.object(1, tachyon.ObjectMutex, 0xc000010000, "")
	f.object(2, tachyon.ObjectChannel, 0x5c0100, "main.jobs")
	for i := range connections {
		f.object(20+i, tachyon.ObjectChannel, 0xc000020000+96*uint64(i), "")
	}
}

// crowded [MS] has much of everything for 4 s, or so many ms, with samples each 5 ms: waits at 12 places, 8 functions that use a CPU, four locks, goroutines that leak,
// three that never move, HTTP requests of which some are slow, and each kind of state.
func crowded(f *fixture, args []string) {
	last := uint64(4000)
	if len(args) > 0 {
		last = testenv.Must(strconv.ParseUint(args[0], 10, 64))
	}
	const file, server = "app.go", "net/http/server.go"
	serve := []tachyon.Frame{lib(server, "net/http.serverHandler.ServeHTTP", 7), lib(server, "net/http.(*conn).serve", 7)}
	for ms := uint64(1); ms <= last; ms += 5 {
		for i := range uint64(12) {
			f.add(100+i, ms, 0, wait("select"), own(file, fmt.Sprintf("wait%d", i), 10))
		}
		f.add(200, ms, onCPU, own(file, fmt.Sprintf("work%d", ms%8), 20))
		f.add(201, ms, tachyon.HasGIL, own(file, "late", 30))
		f.add(202, ms, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, own(file, "ready", 31))
		f.add(203, ms, tachyon.Unknown, wait("syscall"), own(file, "call", 32))
		for i := range 4 {
			refresh, get := fmt.Sprintf("(*cache%d).refresh", i), fmt.Sprintf("(*cache%d).get", i)
			load := []tachyon.Frame{wait("sleep"), own(file, refresh, 45)}
			user := []tachyon.Frame{wait("sleep"), own(file, get, 33)}
			if ms%50 < 30 {
				load = []tachyon.Frame{wait("sleep"), own(file, "load", 60), own(file, refresh, 42)}
				user = locked("sync.Mutex.Lock", 1+i, own(file, get, 31))
			}
			f.add(uint64(300+i), ms, 0, load...)
			f.add(uint64(310+i), ms, 0, user...)
		}
		request := append([]tachyon.Frame{wait("IO wait"), lib("bufio/bufio.go", "bufio.(*Reader).Peek", 7)}, serve[1:]...)
		if phase := ms % 100; phase >= 20 && phase < 30 || ms%1000 > 930 {
			request = append([]tachyon.Frame{wait("sleep"), own(file, "query", 50)}, serve...)
		}
		f.add(400, ms, 0, request...)
		for i := range uint64(3) {
			f.add(600+i, ms, 0, wait("chan receive"), own(file, fmt.Sprintf("watch%d", i), 80))
		}
		for i := range ms / 200 {
			f.add(500+i, ms, 0, wait("chan receive"), own(file, "leak", 70))
		}
	}
	for i := range uint64(3) {
		g := f.goroutine(600+i, "main.main", fmt.Sprint("/src/app/app.go:", 4+i))
		g.Last, g.FirstWeight = 4_000_000, 0
	}
	for i := range uint64(20) {
		g := f.goroutine(500+i, "main.serve", "/src/app/app.go:9")
		g.First, g.Last = (i+1)*200_000, 4_000_000
	}
	for i := range 4 {
		f.object(1+i, tachyon.ObjectMutex, 0xc000010000+64*uint64(i), "")
	}
}

// differs PERCENT has 10 s, in which main.extra takes that much of a core.
func differs(f *fixture, args []string) {
	extra := testenv.Must(strconv.ParseUint(args[0], 10, 64))
	f.session = tachyon.Session{}
	at := uint64(0)
	spend := func(us uint64, s tachyon.Status, stack ...tachyon.Frame) {
		at += us
		f.put(1, tachyon.User, at, s, stack...)
	}
	for i := uint64(0); at < 10_000_000; i++ {
		if extra > 0 {
			spend(extra*1000, onCPU, own("extra.go", "extra", 9))
		}
		work := 40_000 + 7919*i%20_000
		spend(work, onCPU, own("work.go", "work", 4))
		spend(100_000-work-extra*1000, 0, wait("sleep"), lib("runtime/time.go", "time.Sleep", 300), own("rest.go", "rest", 5))
	}
}

// leaky [PROVEN] has 10 s. Every second a goroutine leaks, and a worker joins a pool. Each worker has something to do every
// second. With an argument the runtime has proved what leaks.
func leaky(f *fixture, args []string) {
	leak, idle, work := own("fetch.go", "fetch", 31), own("worker.go", "worker", 12), own("work.go", "work", 50)
	for i := range uint64(10) {
		for j, by := range []string{"main.serve", "main.grow"} {
			g := f.goroutine(2*i+uint64(j)+10, by, "/src/app/main.go:"+strconv.Itoa(7+j))
			g.First, g.Last = (i+1)*1_000_000, 10_000_000
		}
		for ms := (i + 1) * 1000; ms <= 10_000; ms += 20 {
			f.add(2*i+10, ms, 0, wait("chan receive"), leak)
			if ms%1000 == 500 {
				f.add(2*i+11, ms, onCPU, work, idle)
			} else {
				f.add(2*i+11, ms, 0, wait("chan receive"), idle)
			}
		}
	}
	if len(args) > 0 {
		f.session.Leaks = &tachyon.ProvenLeaks{Count: 9, Groups: []tachyon.ProvenLeak{
			{Count: 9, Frames: []tachyon.LeakFrame{{Func: leak.Func, File: leak.File, Line: leak.Line}}},
		}}
	}
}

// serves [N] has 200 HTTP requests of 10 ms. Four of them sleep for 40 ms more. N goroutines wait beside them in the whole
// session, which is 3 s longer then.
func serves(f *fixture, args []string) {
	const file = "handler.go"
	rests, _ := strconv.Atoi(strings.Join(args, ""))
	conn := lib("net/http/server.go", "net/http.(*conn).serve", 2000)
	handle := []tachyon.Frame{own(file, "handle", 12), lib("net/http/server.go", "net/http.serverHandler.ServeHTTP", 3000), conn}
	at := uint64(0)
	spend := func(ms uint64, s tachyon.Status, stack ...tachyon.Frame) {
		for range ms {
			at++
			f.add(7, at, s, stack...)
			for i := range rests {
				f.add(uint64(8+i), at, 0, wait("chan receive"), own(file, "watch", 12), own(file, "start", 12))
			}
		}
	}
	in := func(stack ...tachyon.Frame) []tachyon.Frame { return append(stack, handle...) }
	peek := []tachyon.Frame{wait("IO wait"), lib("bufio/bufio.go", "bufio.(*Reader).Peek", 148), conn}
	var labels []tachyon.LabelSpan
	for i := range 200 {
		spend(5, 0, peek...)
		labels = append(labels, tachyon.LabelSpan{From: 1000*at + 1, Labels: map[string]string{"request": strconv.Itoa(i)}})
		spend(4, onCPU, in(own(file, "parse", 12))...)
		spend(6, 0, in(wait("select"), own(file, "query", 12))...)
		if i%50 == 20 {
			spend(40, 0, in(wait("sleep"), own(file, "backoff", 12))...)
		}
		labels = append(labels, tachyon.LabelSpan{From: 1000*at + 1, Labels: map[string]string{}})
	}
	spend(5, 0, peek...)
	if rests > 0 {
		spend(3000, 0, peek...)
	}
	f.goroutine(7, "net/http.(*Server).Serve", "/usr/lib/go/src/net/http/server.go:3400").Labels = labels
	for i := range rests {
		f.goroutine(uint64(8+i), "main.main", "/src/app/main.go:9")
	}
}
