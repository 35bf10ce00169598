package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/felixge/fgprof"
	"github.com/google/pprof/profile"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
)

// profilerKind is one of the profilers that are compared.
type profilerKind struct {
	name string
	rate int // fixed rate in ticks a second; 0: variable
	// start begins a session. Only gotach uses the budget.
	start  func(rate int, budget float64) (session, error)
	budget float64 // with the load, in percent of the machine's CPU
	// stopsTwice is true if each tick stops the world twice. Ticks are counted from stops.
	stopsTwice bool
	// bare is true if the ticks take no samples. Only the cost of the ticks is measured.
	bare bool
	// inCPU is true if ticks are in CPU time. Then there are no ticks while nothing runs.
	inCPU bool
}

var profilers = []profilerKind{
	{name: "gotach native", start: startGotach("native"), budget: 1},
	{name: "gotach native, budget 10 %", start: startGotach("native"), budget: 10},
	{name: "gotach portable", start: startGotach("portable"), budget: 1},
	{name: "fgprof", rate: 99, start: startFgprof, stopsTwice: true},
	{name: "fgprof's loop", start: startLoop},
	{name: "GoroutineProfile", start: startGoroutineProfile},
	{name: "Stack", start: startStack},
	{name: "CPU profile", rate: 100, start: startCPU, inCPU: true},
	{name: "timer alone", start: startTimer, bare: true},
}

// kindOf returns the profiler of a name.
func kindOf(name string) (profilerKind, error) {
	i := slices.IndexFunc(profilers, func(k profilerKind) bool { return k.name == name })
	if i < 0 {
		return profilerKind{}, fmt.Errorf("no profiler %q", name)
	}
	return profilers[i], nil
}

const nativeName = "gotach native"

// A session is a running profiler. stop ends the session and returns its trace.
type session interface {
	stop() (trace, error)
}

// A trace is the result of a session.
type trace struct {
	ticks   []time.Time     // times of the ticks, ascending; nil: unknown
	looks   []time.Duration // duration of each tick's call; nil: there is no call
	samples []int           // number of goroutines sampled at each tick; nil: all
	count   int64           // number of ticks, if only that is known
	bytes   int64           // bytes written
	counted float64         // share of the ticks asked for, as gotach's metadata count it
}

// within returns the part of a trace between two times.
func (t trace) within(from, to time.Time) trace {
	before := func(a, b time.Time) int { return a.Compare(b) }
	i, _ := slices.BinarySearchFunc(t.ticks, from, before)
	j, _ := slices.BinarySearchFunc(t.ticks, to, before)
	t.ticks = t.ticks[i:j]
	if t.looks != nil {
		t.looks = t.looks[i:j]
	}
	if t.samples != nil {
		t.samples = t.samples[i:j]
	}
	return t
}

// An ending is the stop function of a session.
type ending func() (trace, error)

func (f ending) stop() (trace, error) { return f() }

// startGotach uses the profiler like its users do. Afterwards it reads the file.
func startGotach(source string) func(int, float64) (session, error) {
	return func(rate int, budget float64) (session, error) {
		dir, err := os.MkdirTemp("", "gotach-bench-")
		if err != nil {
			return nil, err
		}
		s, err := profiler.Open(
			profiler.Output(filepath.Join(dir, "bench.tach")),
			profiler.Source(profiler.SourceKind(source)), profiler.Rate(rate), profiler.Budget(budget))
		if err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
		return ending(func() (trace, error) {
			defer os.RemoveAll(dir)
			if err := s.Stop(); err != nil {
				return trace{}, err
			}
			return readTrace(s.Path())
		}), nil
	}
}

// readTrace takes the ticks from the times of a file's samples. A tick samples several goroutines
// at one time. Single samples stand between the ticks too, at the times from which a goroutine's
// CPU time counts, and so do samples of pseudo threads.
func readTrace(path string) (t trace, err error) {
	r, err := reader.Open(path)
	if err != nil {
		return t, err
	}
	defer r.Close()
	seen := make(map[uint64]int)
	for s, err := range r.Samples() {
		if err != nil {
			return t, err
		}
		if s.Interpreter == 0 {
			seen[s.Time]++
		}
	}
	times := make([]uint64, 0, len(seen))
	for at, n := range seen {
		if n > 1 {
			times = append(times, at)
		}
	}
	slices.Sort(times)
	for _, at := range times {
		t.ticks = append(t.ticks, time.UnixMicro(int64(at)))
		t.samples = append(t.samples, seen[at])
	}
	t.bytes = r.Size()
	m, err := r.Metadata()
	if err != nil || m.Session == nil {
		return t, fmt.Errorf("no session in the file's metadata: %v", err)
	}
	t.counted = float64(m.Session.TicksReached) / float64(m.Session.TicksAsked)
	return t, nil
}

func startFgprof(int, float64) (session, error) {
	var out bytes.Buffer
	stop := fgprof.Start(&out, fgprof.FormatPprof)
	return ending(func() (t trace, err error) {
		// With very many goroutines fgprof may take less than a tick in two seconds. Then it
		// rounds its rate to 0, divides by it and writes no profile.
		defer func() {
			if p := recover(); p != nil && !strings.Contains(fmt.Sprint(p), "divide by zero") {
				panic(p)
			}
		}()
		err = stop()
		return trace{bytes: int64(out.Len())}, err
	}), nil
}

func startCPU(int, float64) (session, error) {
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		return nil, err
	}
	return ending(func() (trace, error) {
		pprof.StopCPUProfile()
		t := trace{bytes: int64(out.Len())}
		p, err := profile.Parse(&out)
		if err != nil {
			return t, fmt.Errorf("the CPU profile: %w", err)
		}
		for _, s := range p.Sample {
			t.count += s.Value[0]
		}
		return t, nil
	}), nil
}

func startGoroutineProfile(rate int, _ float64) (session, error) {
	var records []runtime.StackRecord
	return tick(rate, func() { records = goroutineProfile(records) }), nil
}

func startStack(rate int, _ float64) (session, error) {
	text := make([]byte, 64<<10+runtime.NumGoroutine()<<10)
	return tick(rate, func() {
		for runtime.Stack(text, true) == len(text) {
			text = make([]byte, 2*len(text))
		}
	}), nil
}

// startLoop does the same as fgprof at each tick: it counts the stacks and resolves the frames
// of new ones.
func startLoop(rate int, _ float64) (session, error) {
	type stack struct {
		frames []*runtime.Frame
		count  int
	}
	var records []runtime.StackRecord
	stacks := make(map[[32]uintptr]*stack)
	return tick(rate, func() {
		records = goroutineProfile(records)
		for _, r := range records {
			if _, ok := stacks[r.Stack0]; !ok {
				s := new(stack)
				frames := runtime.CallersFrames(r.Stack())
				for more := true; more; {
					var f runtime.Frame
					f, more = frames.Next()
					s.frames = append(s.frames, &f)
				}
				stacks[r.Stack0] = s
			}
			stacks[r.Stack0].count++
		}
	}), nil
}

// goroutineProfile returns the stacks of all goroutines. It reuses records if it is large
// enough.
func goroutineProfile(records []runtime.StackRecord) []runtime.StackRecord {
	for {
		n, ok := runtime.GoroutineProfile(records[:cap(records)])
		if ok {
			return records[:n]
		}
		records = make([]runtime.StackRecord, n+n/10+1)
	}
}

// tick calls look at a rate from a goroutine. The scheduler may delay the calls.
func tick(rate int, look func()) session {
	quit, done := make(chan bool), make(chan trace)
	go func() {
		var t trace
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				done <- t
				return
			case <-ticker.C:
			}
			at := time.Now()
			look()
			t.ticks = append(t.ticks, at)
			t.looks = append(t.looks, time.Since(at))
		}
	}()
	return ending(func() (trace, error) {
		quit <- true
		return <-done, nil
	})
}
