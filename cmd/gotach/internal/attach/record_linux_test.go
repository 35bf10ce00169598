//go:build amd64 || arm64

package attach

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"

	"golang.org/x/sys/unix"
)

// record records a target until after has been called with so many ticks, and reads the file.
func record(t *testing.T, x *target, ticks int64, after func(stop func()), how ...string) (*Recording, *reader.Reader) {
	path := filepath.Join(t.TempDir(), "x.tach")
	return recordTo(t, x, path, ticks, after, how...), testenv.Closes(t, testenv.Must(reader.Open(path)))
}

func recordTo(t *testing.T, x *target, path string, ticks int64, after func(stop func()), how ...string) *Recording {
	p := testenv.Must(Open(t.Context(), x.pid))
	p.Pauses = slices.Contains(how, "pauses")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := testenv.Must(p.Record(ctx, path, Options{Interval: time.Millisecond, Budget: 100, refused: map[bool]error{true: unix.EACCES}[slices.Contains(how, "no perf")], Progress: func(n int64, _ time.Duration, _ string) {
		if n == ticks {
			after(cancel)
		}
	}}))
	testenv.Is(t, "the journal of a finished file", testenv.Err(os.Stat(path+".journal")), os.ErrNotExist)
	return r
}

// A goroutine that waits has samples with what the program says of it, for all the time. What runs has calls of its own, and their CPU time is all of the process's.
func TestRecord(t *testing.T) {
	program := build(t, "", "-ldflags=-s -w")
	for _, how := range []string{"perf", "no perf", "pauses"}[:testenv.Brief(1, 3)] {
		t.Run(how, func(t *testing.T) { testRecord(t, program, how) })
	}
}

// samples are those of a file, with their weights.
func samples(f *reader.Reader) *stream.Source {
	return testenv.Must(stream.New([]stream.File{{Stream: f}}, stream.Options{}))
}

// callsOf returns the functions of a sample, innermost first.
func callsOf(src *stream.Source, s *stream.Sample) (names []string) {
	for _, id := range src.AppendStack(nil, s.Stack) {
		names = append(names, src.Frames()[id].Func)
	}
	return names
}

// withObjects are the samples of a file and the objects that goroutines waited for.
func withObjects(t *testing.T, path string) (*stream.Source, map[int32]tachyon.Object) {
	f := testenv.Closes(t, testenv.Must(reader.Open(path)))
	src := testenv.Must(stream.New([]stream.File{{Stream: f}}, stream.Options{Objects: true}))
	return src, testenv.Must(src.Objects())
}

// wallOf sums up the time of files that follow each other, by the function that waits. n is the number of samples.
func wallOf(t *testing.T, paths ...string) (sums map[string]time.Duration, n int) {
	var files []stream.File
	for _, path := range paths {
		files = append(files, stream.File{Stream: testenv.Closes(t, testenv.Must(reader.Open(path)))})
	}
	src := testenv.Must(stream.New(files, stream.Options{}))
	sums = map[string]time.Duration{}
	for x := range testenv.All(t, src.Samples()) {
		sums[src.Frames()[src.AppendStack(nil, x.Stack)[1]].Func] += x.Wall
		n++
	}
	return sums, n
}

// A recording has GOMAXPROCS, also if the program has set it, and the CPUs that the program may use, which are not those of the recorder.
func TestProcs(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	program := build(t, "", "-ldflags=-s -w")
	for procs, args := range map[int][]string{3: nil, 1: {"one"}} {
		x := start(t, program, args...)
		var all, one unix.CPUSet
		testenv.OK(t, unix.SchedGetaffinity(x.pid, &all))
		for i := 0; one.Count() == 0; i++ {
			if all.IsSet(i) {
				one.Set(i)
			}
		}
		testenv.OK(t, unix.SchedSetaffinity(x.pid, &one))
		_, f := record(t, x, 5, func(stop func()) { stop() })
		s := testenv.Must(f.Metadata()).Session
		testenv.FailIf(t, s.GOMAXPROCS != procs || s.CPUs <= 0 || s.CPUs > 1, "GOMAXPROCS %d, want %d; %v CPUs", s.GOMAXPROCS, procs, s.CPUs)
	}
}

func testRecord(t *testing.T, program, how string) {
	x := start(t, program, "move", "burn")
	before := x.stack(t)
	r, f := record(t, x, 200, func(stop func()) { stop() }, how)
	after := x.stack(t)
	testenv.OK(t, r.Ended)
	m := testenv.Must(f.Metadata())
	known, labelled := map[uint64]tachyon.Goroutine{}, 0
	for _, g := range m.Goroutines {
		known[g.ID] = g
		if len(g.Labels) > 0 && reflect.DeepEqual(g.Labels[0].Labels, map[string]string{"tenant": "a", "kind": "test"}) {
			labelled++
		}
	}
	d := m.Session
	testenv.FailIf(t, d.Source != sourceName || d.PID != x.pid || d.GoVersion == "" || d.TicksReached < 200 || d.Duration != r.Duration || d.ProcessCPU == 0, "session %+v", d)
	sums, on, n := map[uint64]time.Duration{}, time.Duration(0), 0
	calls := map[string]time.Duration{} // CPU time
	src := samples(f)
	for s := range testenv.All(t, src.Samples()) {
		n++
		on += s.CPU()
		var frames []Frame
		for _, id := range src.AppendStack(nil, s.Stack) {
			fr := src.Frames()[id]
			frames = append(frames, Frame{Func: fr.Func, File: fr.File, Line: fr.Line})
		}
		if s.Interpreter != tachyon.User {
			continue
		}
		sums[s.Goroutine] += s.Wall
		for _, fr := range frames {
			calls[fr.Func] += s.CPU()
		}
		switch want := before[s.Goroutine]; {
		case frames[0].Func == tachyon.FuncNotRead:
			testenv.FailIf(t, len(frames) != 2 || s.Status&tachyon.HasGIL == 0 && s.Status != tachyon.Unknown|tachyon.OnCPU, "goroutine %d runs in %v, status %v", s.Goroutine, frames, s.Status)
		case s.Status&tachyon.HasGIL != 0:
			// What ends has left its function.
			last := frames[len(frames)-1].Func
			testenv.FailIf(t, s.Goroutine != 1 && !strings.HasPrefix(last, "main.") && last != "runtime.goexit1", "goroutine %d runs in %v, status %v", s.Goroutine, frames, s.Status)
		case s.Goroutine == 1 || want.ID == 0 || want.State == "running" || want.State == "runnable" || !reflect.DeepEqual(want, after[s.Goroutine]) || moves(want):
		case frames[0].Func != "["+want.State+"]" || !reflect.DeepEqual(shownFrames(frames[1:]), want.Frames):
			t.Fatalf("goroutine %d: %v %v\nwant %v %v", s.Goroutine, s.Status, frames, want.State, want.Frames)
		}
	}
	still := 0
	for id, want := range before {
		if !reflect.DeepEqual(want, after[id]) || want.State == "running" || want.State == "runnable" || moves(want) {
			continue
		}
		still++
		g := known[id]
		testenv.FailIf(t, g.Parent != want.Parent || g.CreatedBy != want.CreatedBy || id != 1 && g.CreatedAt != want.CreatedAt, "goroutine %d: %+v, want %+v", id, g, want)
		testenv.Same(t, fmt.Sprint("the end of goroutine ", id, ", µs"), int64(g.Last), r.Duration.Microseconds())
		testenv.Within(t, fmt.Sprint("time of goroutine ", id, " in samples"), sums[id], r.Duration-2*time.Microsecond, r.Duration)
	}
	testenv.FailIf(t, still < 31, "%d goroutines wait", still)
	testenv.Same(t, m.Session.SourceReason+": it says that there are no perf events", m.Session.SourceReason == sourceNote, r.NoPerf != nil)
	testenv.FailIf(t, how == "no perf" && r.NoPerf == nil, "there are perf events")
	if r.NoPerf != nil || how == "pauses" { // who used a core is guessed
		testenv.FailIf(t, on == 0 || on > m.Session.ProcessCPU+r.Duration || r.NoPerf == nil && calls["crypto/sha256.Sum256"] == 0, "CPU time %v of %v: %v", on, m.Session.ProcessCPU, calls)
	} else if off := on - m.Session.ProcessCPU; off.Abs() > time.Duration(n)*time.Microsecond+m.Session.ProcessCPU/50 || calls["crypto/sha256.Sum256"] == 0 {
		t.Errorf("CPU time %v of %v: %v", on, m.Session.ProcessCPU, calls)
	}
	testenv.Same(t, "goroutines with the labels", labelled, 1)
}

// Goroutines that move and grow their stacks all the time have no stack that does not exist.
func TestInvariant(t *testing.T) {
	testenv.Long(t)
	program := build(t, "", "-ldflags=-s -w")
	testInvariant(t, program)
	testInvariant(t, program, "pauses")
}

func testInvariant(t *testing.T, program string, how ...string) {
	x := start(t, program, "chains")
	r, f := record(t, x, int64(testenv.Times(150, 60_000)), func(stop func()) { stop() }, how...)
	callers := map[string]string{"a": "c", "b": "a", "c": "b", "x": "z", "y": "x", "z": "y"}
	src := samples(f)
	n, deep := 0, 0
	for s := range testenv.All(t, src.Samples()) {
		names := append(callsOf(src, s), "")
		n++
		for i, name := range names[:len(names)-1] {
			name, ours := strings.CutPrefix(name, "main.")
			caller := strings.TrimPrefix(names[i+1], "main.")
			switch want, isCall := callers[name]; {
			case !ours || name == "tip" && (callers[caller] != ""):
			case name == "tip", isCall && caller != want && (caller != "chains" || name != "a" && name != "x"):
				t.Fatalf("main.%s is called by %q: %v", name, caller, names)
			case isCall:
				deep++
			}
		}
	}
	testenv.FailIf(t, deep < 1000, "%d calls of the chains in %d samples", deep, n)
	t.Logf("%d samples, %d calls, %d torn", n, deep, r.Torn)
}

// Files that follow each other have all the time of a goroutine, and each has what is known of it. Old ones are deleted.
func TestRotates(t *testing.T) {
	const tick, every, moves, ends = 10 * time.Millisecond, 3 * time.Second, 8 * time.Second, 14 * time.Second
	s := newScripted()
	r, path := scriptedRecorder(t, s, Options{Interval: tick, Rotate: rotate.Options{Every: every, Keep: 3, KeepBytes: 1 << 40}})
	for r.now < ends {
		r.before, r.now = r.now, r.now+tick
		if r.now == moves {
			s.set(theG+uint64(goruntime.Layouts["go1.26"].GSchedPC), 0x400101)
		}
		testenv.OK(t, r.step(r.now >= ends))
		r.w.Settle()
	}
	testenv.OK(t, r.close(nil))
	testenv.FailIf(t, len(r.Files) != 3 || r.number < 4, "%d files, kept %q", r.number, r.Files)
	testenv.Same(t, "files present", len(testenv.Must(os.ReadDir(filepath.Dir(path)))), 3)
	slices.Reverse(r.Files)
	at := time.UnixMicro(1e15).Add(ends)
	for i, path := range r.Files { // from the last one
		f := testenv.Closes(t, testenv.Must(reader.Open(path)))
		m := testenv.Must(f.Metadata())
		d := m.Session
		testenv.FailIf(t, !d.SessionStart.Equal(time.UnixMicro(1e15)) || !d.Start.Add(d.Duration).Equal(at), "file %d: %+v", d.Part, d)
		testenv.FailIf(t, d.Part != r.number-i || d.TicksReached != int64(d.Duration/tick) || d.Error != "", "file %d: %+v", d.Part, d)
		at = d.Start
		labels := []tachyon.LabelSpan{{Labels: map[string]string{"a": "b"}}}
		testenv.FailIf(t, len(m.Goroutines) != 1 || m.Goroutines[0].ID != 7 || m.Goroutines[0].Last != micros(d.Duration) || !reflect.DeepEqual(m.Goroutines[0].Labels, labels), "file %d has goroutines %+v", d.Part, m.Goroutines)
	}
	sums, _ := wallOf(t, r.Files...)
	begin, inner, other := at.Sub(time.UnixMicro(1e15)), sums["main.inner"], sums["main.other"]
	testenv.FailIf(t, inner+other != ends-begin || other < ends-moves || other > ends-moves+moves/restPart+tick, "%v, then %v, from %v on", inner, other, begin)
}

// scriptedRecorder returns a recorder of a scripted process, and its file.
func scriptedRecorder(t *testing.T, s *scripted, o Options) (*recorder, string) {
	s.PID = os.Getpid()
	path := filepath.Join(t.TempDir(), "x.tach")
	r := &recorder{Process: s.Process, o: o, base: 1e15, byG: map[uint64]*known{}}
	testenv.OK(t, r.create(path))
	return r, path
}

// A goroutine that waits for a minute is looked at some hundred times and has a sample a second. The sum of its samples is the time of the recording,
// and the end of its wait is known to a 64th of its length.
func TestRests(t *testing.T) {
	const tick, wakes, ends = 10 * time.Millisecond, 10 * time.Second, time.Minute
	s := newScripted()
	r, path := scriptedRecorder(t, s, Options{Interval: tick})
	looks, ticks, woke := 0, 0, false
	s.before = func(addr uint64) {
		if addr == theG {
			looks++
		}
	}
	for ; r.now < ends; ticks++ {
		r.before, r.now = r.now, r.now+tick
		if r.now > wakes && !woke {
			woke = true
			s.set(theG+uint64(goruntime.Layouts["go1.26"].GSchedPC), 0x400101)
		}
		testenv.OK(t, r.step(r.now >= ends))
	}
	testenv.OK(t, r.close(nil))
	testenv.Within(t, fmt.Sprint("looks at ", ticks, " ticks"), looks, 0, ticks/6)
	sums, n := wallOf(t, path)
	inner, other := sums["main.inner"], sums["main.other"]
	testenv.FailIf(t, inner+other != ends || inner > wakes || inner < wakes-wakes/restPart-tick, "%v, then %v", inner, other)
	testenv.Within(t, "samples", n, 0, (int(ends/lastBeat)+20)*4/3)
}

// Goroutines that live for 20 ms each and have one runtime.g have their time on average, also that of what they begin with.
func TestLivesAfterRests(t *testing.T) {
	const tick, lives, begins, n = time.Millisecond, 20 * time.Millisecond, 2 * time.Millisecond, 50
	s := newScripted()
	r, path := scriptedRecorder(t, s, Options{Interval: tick})
	l := goruntime.Layouts["go1.26"]
	chance := rand.New(rand.NewPCG(1, 2))
	for id := range uint64(n) {
		live := func(status byte, d time.Duration) {
			s.part(theG + uint64(l.GStatus))[0] = status
			for end := r.now + d; r.now < end; {
				r.before, r.now = r.now, r.now+tick
				testenv.OK(t, r.step(false))
			}
		}
		s.set(theG+uint64(l.GID), id+7)
		live(goruntime.GDead, time.Second+time.Duration(chance.IntN(200))*tick)
		s.set(theG+uint64(l.GSchedPC), 0x400101)
		live(goruntime.GWaiting, begins)
		s.set(theG+uint64(l.GSchedPC), 0x400100)
		live(goruntime.GWaiting, lives-begins)
	}
	r.before, r.now = r.now, r.now+tick
	testenv.OK(t, r.step(true))
	testenv.OK(t, r.close(nil))
	sums, _ := wallOf(t, path)
	testenv.Within(t, "time of all", sums["main.inner"]+sums["main.other"], n*lives*95/100, n*lives*105/100)
	testenv.Within(t, "time of what they begin with", sums["main.other"], n*begins*8/10, n*begins*12/10)
}
