// Package pagetest makes profiles for tests of the page, and serves them.
package pagetest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/profile"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// What the profiles have: their begin, the status of what runs, and names that a page must not take
// for markup.
const (
	Begin   = 1_795_234_224_000_000 // µs
	Running = tachyon.HasGIL | tachyon.OnCPU
	Evil    = `</script><img src=x onerror="document.title='hurt'">`
	Generic = `main.(*box[go.shape.struct { x <-chan int }]).get`
)

// A Recording is a profile that a test makes. Times are in µs since the start.
type Recording struct {
	t          testing.TB
	w          *writer.Writer
	path       string
	Goroutines []tachyon.Goroutine
	Objects    []tachyon.Object
	Counts     tachyon.Counts
	Empty      bool // it has no time at all
}

// New begins a recording.
func New(t testing.TB) *Recording {
	t.Helper()
	r := &Recording{t: t, path: filepath.Join(t.TempDir(), "x.tach")}
	r.w = testenv.Must(writer.Create(r.path, writer.Options{Start: Begin, Interval: 1000}))
	return r
}

// Add adds a sample.
func (r *Recording) Add(goroutine, at uint64, status tachyon.Status, frames ...tachyon.Frame) {
	r.t.Helper()
	testenv.OK(r.t, r.w.WriteFrames(&tachyon.Sample{Thread: goroutine, Time: Begin + at, Status: status}, frames))
}

// AddRuntime is Add for a goroutine of the Go runtime or, from tachyon.FirstPseudo on, for CPU time
// of no goroutine.
func (r *Recording) AddRuntime(goroutine, at uint64, status tachyon.Status, frames ...tachyon.Frame) {
	r.t.Helper()
	of := uint32(tachyon.Runtime)
	if goroutine >= tachyon.FirstPseudo {
		of = tachyon.Process
	}
	testenv.OK(r.t, r.w.WriteFrames(&tachyon.Sample{Thread: goroutine, Interpreter: of, Time: Begin + at, Status: status}, frames))
}

// Input finishes the file and returns it as an input.
func (r *Recording) Input(length time.Duration) page.Input {
	r.t.Helper()
	if !r.Empty {
		r.Counts.NotSeen = 1234567 * time.Nanosecond
	}
	testenv.OK(r.t, r.w.AddMetadata(tachyon.KindSession, tachyon.Session{
		Program: "/srv/" + Evil, GoVersion: "go1.26.8", GOOS: "linux", GOARCH: "amd64", Source: "native", Rate: 1000, RateReached: 1000,
		Markers: true, Objects: tachyon.AllObjects, Start: time.UnixMicro(Begin).UTC(), Duration: length, Counts: r.Counts,
	}))
	testenv.OK(r.t, r.w.WriteRecords(&tachyon.Records{Goroutines: r.Goroutines, Objects: r.Objects}))
	testenv.OK(r.t, r.w.Close())
	return File(r.t, r.path)
}

// File returns a file as an input.
func File(t testing.TB, path string) page.Input {
	t.Helper()
	f := testenv.Must(reader.Open(path))
	t.Cleanup(func() { f.Close() })
	return page.Input{Name: "x " + Evil, Open: func(o stream.Options) (*stream.Source, error) {
		return stream.New([]stream.File{{Stream: f}}, o)
	}}
}

// Frame returns a frame of the program.
func Frame(function string, line int32) tachyon.Frame {
	return tachyon.Frame{Func: function, File: "/src/app/app.go", Line: line}
}

// Wait returns the marker of a wait.
func Wait(reason string) tachyon.Frame { return tachyon.Frame{Func: "[" + reason + "]"} }

// Server makes a profile of two seconds: 8 workers that hash, wait for a lock and sleep, and a main
// goroutine that waits. In the second half they hash more.
func Server(t testing.TB) page.Input {
	r := New(t)
	top, serve := Frame("main.main", 10), Frame("main.serve", 20)
	r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: 1})
	for g := uint64(10); g < 18; g++ {
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: g, CreatedBy: "main.main", CreatedAt: "/src/app/app.go:12", Parent: 1,
			Labels: []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"handler": Evil}}}})
	}
	for at := uint64(0); at <= 2_000_000; at += 10_000 {
		r.Add(1, at, 0, Wait("sync.WaitGroup.Wait"), tachyon.Frame{Func: "sync.(*WaitGroup).Wait", File: "/usr/lib/go/src/sync/waitgroup.go", Line: 100}, top)
		for g := uint64(10); g < 18; g++ {
			at := at + g*37
			switch n := (at/10_000 + g) % 8; {
			case n < 2 || at > 1_000_000 && n < 5:
				r.Add(g, at, Running, Frame("main.hash", int32(30+n)), Frame(Generic, 50), serve)
			case n == 5:
				r.Add(g, at, 0, Wait("sync.Mutex.Lock"), tachyon.Frame{Func: "sync.(*Mutex).Lock", File: "/usr/lib/go/src/sync/mutex.go", Line: 45}, Frame("main.(*cache).get", 60), serve)
			case n == 6:
				r.Add(g, at, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, Frame("main.hash", 31), serve)
			default:
				r.Add(g, at, 0, Wait("sleep"), Frame("main.pause", 70), serve)
			}
		}
	}
	return r.Input(2 * time.Second)
}

// Contended makes a profile of a second: goroutine 7 holds a lock, 8 and 9 wait for it, and 10
// leaks children that wait. Goroutine 11 serves requests.
func Contended(t testing.TB) page.Input {
	r := New(t)
	lock := []tachyon.Frame{{Func: "[sync.Mutex.Lock]", Line: 1}, {File: "/usr/lib/go/src/sync/mutex.go", Func: "sync.(*Mutex).Lock", Line: 46}}
	r.Objects = []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0x5c0100, Static: 0x5c0100, Symbol: "main.mu"}}
	handler := tachyon.Frame{File: "/usr/lib/go/src/net/http/server.go", Func: "net/http.serverHandler.ServeHTTP", Line: 3000}
	for ms := uint64(1); ms <= 1000; ms++ {
		if phase := ms % 50; phase < 30 {
			r.Add(7, 1000*ms, 0, Wait("sleep"), Frame("main.load", 60), Frame("main.(*cache).refresh", 42))
			for _, id := range []uint64{8, 9} {
				r.Add(id, 1000*ms, 0, append(slices.Clone(lock), Frame("main.(*cache).get", 31), Frame("main.serve", 12))...)
			}
		} else {
			r.Add(7, 1000*ms, 0, Wait("sleep"), Frame("main.(*cache).refresh", 45))
			for _, id := range []uint64{8, 9} {
				r.Add(id, 1000*ms, Running, Frame("main.serve", 14))
			}
		}
		if phase := ms % 40; phase < 25 {
			r.Add(11, 1000*ms, Running, Frame("main.parse", 80), handler)
		} else {
			r.Add(11, 1000*ms, 0, Wait("IO wait"), Frame("main.next", 90))
		}
		for id := uint64(100); id < 100+ms/40; id++ {
			r.Add(id, 1000*ms, 0, Wait("chan receive"), Frame("main.leak", 99))
		}
	}
	for id := uint64(100); id < 125; id++ {
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: id, Parent: 10, CreatedBy: "main.spawn", CreatedAt: "/src/app/app.go:95"})
	}
	r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: 11, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "/usr/lib/go/src/net/http/server.go:3400",
		Labels: []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"request": Evil}}}})
	return r.Input(time.Second)
}

// Write writes the page of inputs to a file and returns its name.
func Write(t testing.TB, o page.Options, inputs ...page.Input) string {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, testenv.Must(page.Build(inputs, o)).WriteHTML(&b))
	name := filepath.Join(t.TempDir(), "page.html")
	testenv.OK(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

// Restricted returns what is selected of an input.
func Restricted(in page.Input, sel *stream.Selection) page.Input {
	return page.Input{Name: in.Name, Open: func(o stream.Options) (*stream.Source, error) {
		o.Select = sel
		return in.Open(o)
	}}
}

// During returns what is in a span of time of an input.
func During(in page.Input, span page.Span) page.Input {
	return Restricted(in, testenv.Must(span.Select(nil)))
}

// Report returns what gotach report prints of an input.
func Report(in page.Input, o report.Options, by profile.By) *profile.Report {
	p := testenv.Must(report.NewProfile(testenv.Must(in.Open(o.Stream())), o))
	return testenv.Must(profile.New(p, profile.ReportOptions{By: by}))
}

// Selecting returns what a Server reads: the input, of the time that is asked for.
func Selecting(in page.Input) func(context.Context, page.Request) (*page.Opened, error) {
	return func(_ context.Context, r page.Request) (*page.Opened, error) {
		sel, err := r.Select(nil)
		return &page.Opened{Inputs: []page.Input{Restricted(in, sel)}, Close: func() error { return nil }}, err
	}
}

// Serve starts a server on this computer and returns its address.
func Serve(t *testing.T, o page.ServerOptions) string {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
	if o.Version == nil {
		o.Version = func() string { return "one" }
	}
	s := page.NewServer(t.Context(), o)
	local := page.NewLocal(l, s)
	h := httptest.NewUnstartedServer(local)
	h.Listener.Close()
	h.Listener = l
	h.Start()
	t.Cleanup(func() { h.Close(); s.Close() })
	return local.URL()
}

// Busy makes a profile of two seconds in which four goroutines do something else all the time.
func Busy(t *testing.T) page.Input {
	r, rng := New(t), rand.New(rand.NewPCG(1, 2))
	for at := uint64(0); at < 2_000_000; at += 1 + rng.Uint64N(800) {
		f := Frame("main.work", int32(rng.IntN(40)))
		if rng.IntN(2) == 0 {
			r.Add(1+rng.Uint64N(4), at, 0, Wait("sleep"), f, Frame("main.serve", 12))
		} else {
			r.Add(1+rng.Uint64N(4), at, Running, f, Frame("main.serve", 12))
		}
	}
	return r.Input(2 * time.Second)
}
