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
	"github.com/gotach/profiler/reader"
)

// profilerKind is one of the profilers that are compared.
type profilerKind struct {
	name string
	rate int // ticks a second that it always takes; 0: as asked
	// start begins a session. budget is for those that have one.
	start func(rate int, budget float64) (session, error)
	// stopsTwice says that each tick stops the world twice and that this is
	// how ticks are counted.
	stopsTwice bool
	// bare says that it sees nothing: what is measured is what its ticks cost anyway.
	bare bool
	// inCPU says that ticks are in CPU time: none come while nothing runs.
	inCPU bool
}

var profilers = []profilerKind{
	{name: "gotach native", start: startGotach("native")},
	{name: "gotach portable", start: startGotach("portable")},
	{name: "fgprof", rate: 99, start: startFgprof, stopsTwice: true},
	{name: "fgprof's loop", start: startLoop},
	{name: "GoroutineProfile", start: startGoroutineProfile},
	{name: "Stack", start: startStack},
	{name: "CPU profile", rate: 100, start: startCPU, inCPU: true},
	{name: "timer alone", start: startTimer, bare: true},
}

// session is a profiler at work; stop ends it and says what it did.
type session interface {
	stop() (trace, error)
}

// trace is what a session did.
type trace struct {
	ticks   []time.Time     // ascending; nil: the profiler does not tell
	looks   []time.Duration // how long each call took; nil: there is no call
	samples []int           // goroutines seen at each of ticks; nil: all
	count   int64           // ticks, if the profiler tells no more than that
	bytes   int64           // written
	counted float64         // share of the ticks asked that gotach itself says it took
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

// ending is a session that is a function.
type ending func() (trace, error)

func (f ending) stop() (trace, error) { return f() }

// startGotach uses the profiler as its users do, and then reads its file.
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

// readTrace takes the ticks from the times of a file's samples.
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
		seen[s.Time]++
	}
	times := make([]uint64, 0, len(seen))
	for at := range seen {
		times = append(times, at)
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
		// After fewer than a tick in two seconds, as with very many goroutines, it
		// divides by its rate rounded to 0. Then there is no profile.
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

// startLoop does at each tick what fgprof does: count the stacks, and resolve those
// that are new.
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

// goroutineProfile returns all goroutines' stacks, in records if they fit.
func goroutineProfile(records []runtime.StackRecord) []runtime.StackRecord {
	for {
		n, ok := runtime.GoroutineProfile(records[:cap(records)])
		if ok {
			return records[:n]
		}
		records = make([]runtime.StackRecord, n+n/10+1)
	}
}

// tick calls look at a rate, from a goroutine, as far as the scheduler lets it.
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
