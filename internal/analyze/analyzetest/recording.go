// Package analyzetest makes recordings for the tests of analyses, and opens those in
// testdata/sessions.
//
// # Files
//
//   - cause.go: what is planted in the programs of testdata/causes
//   - recorder.go: records the programs of the sessions anew
//   - session.go: a session, and what its program says of itself
//   - recording.go: profiles that a test makes
package analyzetest

import (
	"flag"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const (
	Start     = 1_795_234_224_000_000 // µs
	OneSecond = 1_000_000             // µs
	Running   = tachyon.HasGIL | tachyon.OnCPU
)

// A Recording is a profile that a test makes. Times are in µs since the start.
type Recording struct {
	T          testing.TB
	W          *writer.Writer
	file       testenv.File
	Goroutines []tachyon.Goroutine
	Objects    []tachyon.Object
	last       map[uint64]*interned // by goroutine
}

// An interned stack is one with the writer's numbers of its frames. To look these up takes long,
// and most samples are like the ones before.
type interned struct {
	frames []tachyon.Frame
	ids    []uint32
}

func Record(t testing.TB) *Recording { return RecordFrom(t, Start) }

// RecordFrom makes a recording that begins later. The times of its samples are still those since
// start.
func RecordFrom(t testing.TB, from uint64) *Recording {
	t.Helper()
	r := &Recording{T: t, last: map[uint64]*interned{}}
	var err error
	if r.W, err = writer.New(&r.file, writer.Options{Start: from, Interval: 1000, Uncompressed: true}); err != nil {
		t.Fatal(err)
	}
	return r
}

// files has the files of functions: tests name the same ones thousands of times.
var files sync.Map

// A Place is a function and a line of it. Functions of the standard library have files in GOROOT.
func Place(function string, line int32) tachyon.Frame {
	file, ok := files.Load(function)
	if !ok {
		f := tachyon.Frame{File: "/usr/lib/go/src/" + profile.Package(function) + "/x.go", Func: function}
		if !profile.IsStandard(&f) {
			f.File = "/home/u/app/" + function + ".go"
		}
		file, _ = files.LoadOrStore(function, f.File)
	}
	return tachyon.Frame{File: file.(string), Func: function, Line: line}
}

// Add adds a sample of a goroutine. Frames are innermost first.
func (r *Recording) Add(goroutine, at uint64, status tachyon.Status, frames ...tachyon.Frame) {
	last := r.last[goroutine]
	if last == nil {
		last = &interned{}
		r.last[goroutine] = last
	}
	if !slices.Equal(frames, last.frames) {
		last.frames, last.ids = append(last.frames[:0], frames...), last.ids[:0]
		for _, f := range frames {
			last.ids = append(last.ids, r.W.Intern(f))
		}
	}
	s := tachyon.Sample{Thread: goroutine, Time: Start + at, Status: status, Stack: last.ids}
	if goroutine >= tachyon.FirstPseudo {
		s.Interpreter = tachyon.Process
	}
	if err := r.W.Write(&s); err != nil {
		r.T.Helper() // it takes long
		r.T.Fatal(err)
	}
}

// Do adds a sample of a goroutine that runs, or does what its innermost frame says: it waits, or is
// runnable.
func (r *Recording) Do(goroutine, at uint64, frames ...tachyon.Frame) {
	status := Running
	switch leaf := frames[0]; {
	case leaf.Func == tachyon.FuncRunnable:
		status = tachyon.GILRequested
	case leaf.File == "":
		status = 0
	}
	r.Add(goroutine, at, status, frames...)
}

// Every adds samples of a goroutine at equal distances.
func (r *Recording) Every(step, from, to, goroutine uint64, status tachyon.Status, frames ...tachyon.Frame) {
	r.T.Helper()
	for at := from; at <= to; at += step {
		r.Add(goroutine, at, status, frames...)
	}
}

// Goroutine says how a goroutine was created.
func (r *Recording) Goroutine(g tachyon.Goroutine) { r.Goroutines = append(r.Goroutines, g) }

// Close finishes the file and returns its samples.
func (r *Recording) Close() *analyze.Samples {
	r.T.Helper()
	return SamplesOf(r.T, stream.Options{}, r.Finish(tachyon.Session{Source: "native", Markers: true}))
}

// Selection returns the options of samples that are selected, as the command has them.
func Selection(t testing.TB, sel stream.Selection, since, until string) stream.Options {
	t.Helper()
	var err error
	if sel.Since, err = stream.ParseMoment(since); err == nil {
		sel.Until, err = stream.ParseMoment(until)
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream.Options{Labels: true, Creators: true, Objects: true, Select: &sel, Unselected: true}
}

// SamplesOf returns the samples of files.
func SamplesOf(t testing.TB, o stream.Options, list ...*reader.Reader) *analyze.Samples {
	t.Helper()
	var files []stream.File
	for _, f := range list {
		files = append(files, stream.File{Stream: f})
	}
	o.Creators = true
	src := testenv.Must(stream.New(files, o))
	return analyze.NewSamples("x", src)
}

func (r *Recording) Finish(session tachyon.Session) *reader.Reader {
	r.T.Helper()
	err := r.W.AddMetadata(tachyon.KindSession, session)
	if err == nil {
		err = r.W.WriteRecords(&tachyon.Records{Goroutines: r.Goroutines, Objects: r.Objects})
	}
	if err != nil {
		r.T.Fatal(err)
	}
	return testenv.Finish(r.T, &r.file, r.W, reader.New)
}

// Labelled returns the samples with labels.
func (r *Recording) Labelled() *analyze.Samples {
	r.T.Helper()
	return r.Selected(nil)
}

// Selected returns those that are selected.
func (r *Recording) Selected(sel *stream.Selection) *analyze.Samples {
	r.T.Helper()
	return SamplesOf(r.T, stream.Options{Labels: true, Objects: true, Select: sel}, r.Finish(tachyon.Session{Source: "native", Markers: true}))
}

func Wait(why string) tachyon.Frame { return tachyon.Frame{Func: "[" + why + "]"} }

// WaitFor is the innermost frames of a goroutine that waits for an object.
func WaitFor(reason string, number int32) []tachyon.Frame {
	method := map[string]string{
		"sync.Mutex.Lock": "sync.(*Mutex).Lock", "sync.RWMutex.Lock": "sync.(*RWMutex).Lock", "sync.RWMutex.RLock": "sync.(*RWMutex).RLock",
		"sync.WaitGroup.Wait": "sync.(*WaitGroup).Wait", "sync.Cond.Wait": "sync.(*Cond).Wait",
	}[reason]
	list := []tachyon.Frame{{Func: "[" + reason + "]", Line: number}}
	if method != "" {
		list = append(list, Place(method, 46))
	}
	return list
}

// Near reports whether two times differ by at most some part of a whole.
func Near(a, b time.Duration, part float64, whole time.Duration) bool {
	return math.Abs(float64(a-b)) <= part*float64(whole)
}

var Update = flag.Bool("update", false, "write the tables of docs/idle.md and docs/waits.md, testdata/sessions/*.findings, and testdata/causes.findings")
