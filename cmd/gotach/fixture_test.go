package main

import (
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
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
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (f *fixture) add(id, ms uint64, s tachyon.Status, stack ...tachyon.Frame) {
	if f.rename != nil {
		for i := range stack {
			stack[i] = f.rename(stack[i])
		}
	}
	must(f.w.WriteFrames(&tachyon.Sample{Thread: id, Time: fixtureStart + 1000*ms, Status: s}, stack))
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
	other := func(id uint64, interpreter uint32, ms uint64, s tachyon.Status, stack ...tachyon.Frame) {
		must(f.w.WriteFrames(&tachyon.Sample{Thread: id, Interpreter: interpreter, Time: fixtureStart + 1000*ms, Status: s}, stack))
	}
	f.add(1, 0, onCPU, hash, main)
	f.add(1, 600, onCPU, hash, main)
	f.add(1, 2000, tachyon.HasGIL, hash, main)
	f.add(18, 0, 0, lock, main)
	f.add(18, 1500, 0, lock, main)
	f.add(18, 2000, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, hash, main)
	other(3, tachyon.Runtime, 0, 0, wait("GC worker (idle)"), mark)
	other(3, tachyon.Runtime, 1900, 0, wait("GC worker (idle)"), mark)
	other(3, tachyon.Runtime, 2000, onCPU, mark)
	other(tachyon.FirstPseudo, tachyon.Process, 1950, 0, tachyon.Frame{Func: tachyon.FuncScheduler})
	other(tachyon.FirstPseudo, tachyon.Process, 2000, tachyon.OnCPU, tachyon.Frame{Func: tachyon.FuncScheduler})
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
	t.Helper()
	start := time.UnixMicro(fixtureStart + int64(number)*1_000_000).UTC()
	w := testenv.Must(writer.Create(path, writer.Options{Start: uint64(start.UnixMicro()), Interval: 1000}))
	for i := range uint64(samples) {
		must(w.WriteFrames(&tachyon.Sample{Thread: 1, Time: uint64(start.UnixMicro()) + 1000*(i+1), Status: onCPU}, []tachyon.Frame{own("main.go", "work", 3)}))
	}
	must(w.AddMetadata(tachyon.KindSession, tachyon.Session{Program: "app", PID: 7, Host: "host", Rate: 1000, Start: start, Duration: time.Second}))
	must(w.Close())
}
