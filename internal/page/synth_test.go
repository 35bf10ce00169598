package page

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const (
	begin   = 1_795_234_224_000_000 // µs
	running = tachyon.HasGIL | tachyon.OnCPU
	evil    = `</script><img src=x onerror="document.title='hurt'">`
	generic = `main.(*box[go.shape.struct { x <-chan int }]).get`
)

// A recording is a profile that a test makes. Times are in µs since the start.
type recording struct {
	t          testing.TB
	w          *writer.Writer
	path       string
	goroutines []tachyon.Goroutine
	objects    []tachyon.Object
	counts     tachyon.Counts
	empty      bool // it has no time at all
}

func newRecording(t testing.TB) *recording {
	t.Helper()
	r := &recording{t: t, path: filepath.Join(t.TempDir(), "x.tach")}
	r.w = testenv.Must(writer.Create(r.path, writer.Options{Start: begin, Interval: 1000}))
	return r
}

func (r *recording) add(goroutine, at uint64, status tachyon.Status, frames ...tachyon.Frame) {
	r.t.Helper()
	must(r.w.WriteFrames(&tachyon.Sample{Thread: goroutine, Time: begin + at, Status: status}, frames))
}

// input finishes the file and returns it as an input.
func (r *recording) input(length time.Duration) Input {
	r.t.Helper()
	if !r.empty {
		r.counts.NotSeen = 1234567 * time.Nanosecond
	}
	must(r.w.AddMetadata(tachyon.KindSession, tachyon.Session{
		Program: "/srv/" + evil, GoVersion: "go1.26.8", GOOS: "linux", GOARCH: "amd64", Source: "native", Rate: 1000, RateReached: 1000,
		Markers: true, Objects: tachyon.AllObjects, Start: time.UnixMicro(begin).UTC(), Duration: length, Counts: r.counts,
	}))
	must(r.w.WriteRecords(&tachyon.Records{Goroutines: r.goroutines, Objects: r.objects}))
	must(r.w.Close())
	return fileInput(r.t, r.path)
}

// fileInput returns a file as an input.
func fileInput(t testing.TB, path string) Input {
	t.Helper()
	f := testenv.Must(reader.Open(path))
	t.Cleanup(func() { f.Close() })
	return Input{Name: "x " + evil, Open: func(o stream.Options) (*stream.Source, error) {
		return stream.New([]stream.File{{Stream: f}}, o)
	}}
}

func frame(function string, line int32) tachyon.Frame {
	return tachyon.Frame{Func: function, File: "/src/app/app.go", Line: line}
}

func wait(reason string) tachyon.Frame { return tachyon.Frame{Func: "[" + reason + "]"} }

// server makes a profile of two seconds: 8 workers that hash, wait for a lock and sleep, and a main goroutine that waits.
// In the second half they hash more.
func server(t testing.TB) Input {
	r := newRecording(t)
	top, serve := frame("main.main", 10), frame("main.serve", 20)
	r.goroutines = append(r.goroutines, tachyon.Goroutine{ID: 1})
	for g := uint64(10); g < 18; g++ {
		r.goroutines = append(r.goroutines, tachyon.Goroutine{ID: g, CreatedBy: "main.main", CreatedAt: "/src/app/app.go:12", Parent: 1,
			Labels: []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"handler": evil}}}})
	}
	for at := uint64(0); at <= 2_000_000; at += 10_000 {
		r.add(1, at, 0, wait("sync.WaitGroup.Wait"), tachyon.Frame{Func: "sync.(*WaitGroup).Wait", File: "/usr/lib/go/src/sync/waitgroup.go", Line: 100}, top)
		for g := uint64(10); g < 18; g++ {
			at := at + g*37
			switch n := (at/10_000 + g) % 8; {
			case n < 2 || at > 1_000_000 && n < 5:
				r.add(g, at, running, frame("main.hash", int32(30+n)), frame(generic, 50), serve)
			case n == 5:
				r.add(g, at, 0, wait("sync.Mutex.Lock"), tachyon.Frame{Func: "sync.(*Mutex).Lock", File: "/usr/lib/go/src/sync/mutex.go", Line: 45}, frame("main.(*cache).get", 60), serve)
			case n == 6:
				r.add(g, at, tachyon.GILRequested, tachyon.Frame{Func: tachyon.FuncRunnable}, frame("main.hash", 31), serve)
			default:
				r.add(g, at, 0, wait("sleep"), frame("main.pause", 70), serve)
			}
		}
	}
	return r.input(2 * time.Second)
}

// contended makes a profile of a second: goroutine 7 holds a lock, 8 and 9 wait for it, and 10 leaks children that wait.
// Goroutine 11 serves requests.
func contended(t testing.TB) Input {
	r := newRecording(t)
	lock := []tachyon.Frame{{Func: "[sync.Mutex.Lock]", Line: 1}, {File: "/usr/lib/go/src/sync/mutex.go", Func: "sync.(*Mutex).Lock", Line: 46}}
	r.objects = []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0x5c0100, Static: 0x5c0100, Symbol: "main.mu"}}
	handler := tachyon.Frame{File: "/usr/lib/go/src/net/http/server.go", Func: "net/http.serverHandler.ServeHTTP", Line: 3000}
	for ms := uint64(1); ms <= 1000; ms++ {
		if phase := ms % 50; phase < 30 {
			r.add(7, 1000*ms, 0, wait("sleep"), frame("main.load", 60), frame("main.(*cache).refresh", 42))
			for _, id := range []uint64{8, 9} {
				r.add(id, 1000*ms, 0, append(slices.Clone(lock), frame("main.(*cache).get", 31), frame("main.serve", 12))...)
			}
		} else {
			r.add(7, 1000*ms, 0, wait("sleep"), frame("main.(*cache).refresh", 45))
			for _, id := range []uint64{8, 9} {
				r.add(id, 1000*ms, running, frame("main.serve", 14))
			}
		}
		if phase := ms % 40; phase < 25 {
			r.add(11, 1000*ms, running, frame("main.parse", 80), handler)
		} else {
			r.add(11, 1000*ms, 0, wait("IO wait"), frame("main.next", 90))
		}
		for id := uint64(100); id < 100+ms/40; id++ {
			r.add(id, 1000*ms, 0, wait("chan receive"), frame("main.leak", 99))
		}
	}
	for id := uint64(100); id < 125; id++ {
		r.goroutines = append(r.goroutines, tachyon.Goroutine{ID: id, Parent: 10, CreatedBy: "main.spawn", CreatedAt: "/src/app/app.go:95"})
	}
	r.goroutines = append(r.goroutines, tachyon.Goroutine{ID: 11, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "/usr/lib/go/src/net/http/server.go:3400",
		Labels: []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"request": evil}}}})
	return r.input(time.Second)
}

// pageOf writes the page of inputs to a file and returns its name.
func pageOf(t testing.TB, o Options, inputs ...Input) string {
	t.Helper()
	d := testenv.Must(Build(inputs, o))
	return writePage(t, d)
}

func writePage(t testing.TB, d *Data) string {
	t.Helper()
	var b bytes.Buffer
	must(d.WriteHTML(&b))
	name := filepath.Join(t.TempDir(), "page.html")
	must(os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

// must ends the tests at an error that none of them expects.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// same says so if something is not as it should be.
func same[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%#v, want %#v", got, want)
	}
}
