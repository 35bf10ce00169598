package analyze

import (
	"iter"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const (
	start   = 1_795_234_224_000_000 // µs
	running = tachyon.HasGIL | tachyon.OnCPU
)

// A recording is a profile that a test makes. Times are in µs since the start.
type recording struct {
	t          testing.TB
	w          *writer.Writer
	file       testenv.File
	goroutines []tachyon.Goroutine
	objects    []tachyon.Object
}

func record(t testing.TB) *recording { return recordFrom(t, start) }

// recordFrom makes a recording that begins later. The times of its samples are still those since start.
func recordFrom(t testing.TB, from uint64) *recording {
	t.Helper()
	r := &recording{t: t}
	var err error
	if r.w, err = writer.New(&r.file, writer.Options{Start: from, Interval: 1000, Uncompressed: true}); err != nil {
		t.Fatal(err)
	}
	return r
}

// A place is a function and a line of it. Functions of the standard library have files in GOROOT.
func place(function string, line int32) tachyon.Frame {
	dir := profile.Package(function)
	if f := (tachyon.Frame{File: "/usr/lib/go/src/" + dir + "/x.go", Func: function, Line: line}); profile.IsStandard(&f) {
		return f
	}
	return tachyon.Frame{File: "/home/u/app/" + function + ".go", Func: function, Line: line}
}

// add adds a sample of a goroutine. Frames are innermost first.
func (r *recording) add(goroutine, at uint64, status tachyon.Status, frames ...tachyon.Frame) {
	r.t.Helper()
	if err := r.w.WriteFrames(&tachyon.Sample{Thread: goroutine, Time: start + at, Status: status}, frames); err != nil {
		r.t.Fatal(err)
	}
}

// every adds samples of a goroutine at equal distances.
func (r *recording) every(step, from, to, goroutine uint64, status tachyon.Status, frames ...tachyon.Frame) {
	r.t.Helper()
	for at := from; at <= to; at += step {
		r.add(goroutine, at, status, frames...)
	}
}

// goroutine says how a goroutine was created.
func (r *recording) goroutine(g tachyon.Goroutine) { r.goroutines = append(r.goroutines, g) }

// close finishes the file and returns its samples.
func (r *recording) close() *Samples {
	r.t.Helper()
	return samplesOf(r.t, stream.Options{}, r.finish(tachyon.Session{Source: "native", Markers: true}))
}

// selection returns the options of samples that are selected, as the command has them.
func selection(t testing.TB, sel stream.Selection, since, until string) stream.Options {
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

// each yields what there is if there is no error.
func each[T any](t testing.TB, list iter.Seq2[T, error]) iter.Seq[T] {
	t.Helper()
	return func(yield func(T) bool) {
		for x, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(x) {
				return
			}
		}
	}
}

// samplesOf returns the samples of files.
func samplesOf(t testing.TB, o stream.Options, list ...*reader.Reader) *Samples {
	t.Helper()
	var files []stream.File
	for _, f := range list {
		files = append(files, stream.File{Stream: f})
	}
	o.Creators = true
	src := must(stream.New(files, o))(t)
	return NewSamples("x", src)
}

func (r *recording) finish(session tachyon.Session) *reader.Reader {
	r.t.Helper()
	err := r.w.AddMetadata(tachyon.KindSession, session)
	if err == nil {
		err = r.w.WriteRecords(&tachyon.Records{Goroutines: r.goroutines, Objects: r.objects})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return testenv.Finish(r.t, &r.file, r.w, reader.New)
}
