package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// bigFiles writes the parts of a session of a server: 4,550 short goroutines a second, beside 40 that stay. A few of the many stacks
// are frequent. With labels, each short goroutine has one of its own.
func bigFiles(dir string, parts, seconds int, labels bool) (paths []string) {
	for part := range parts {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("app.%d.tach", part+1)))
		bigFile(paths[part], part, seconds, labels)
	}
	return paths
}

func bigFile(path string, part, seconds int, labels bool) {
	const start, perSecond, stay, second = 1_800_000_000_000_000, 4550, 40, 1_000_000 // µs
	from, random, samples := uint64(start+part*seconds*second), rand.New(rand.NewPCG(1, uint64(part))), int64(0)
	w := testenv.Must(writer.Create(path, writer.Options{Start: from, Interval: 1000}))
	waits, selects := w.Intern(tachyon.Frame{Func: "[IO wait]"}), w.Intern(tachyon.Frame{Func: "[select]"})
	var frames []uint32
	for i := range 1500 {
		frames = append(frames, w.Intern(tachyon.Frame{
			File: fmt.Sprintf("/src/app/pkg%d/file%d.go", i%40, i%200), Func: fmt.Sprintf("example.com/app/pkg%d.(*Type%d).method%d", i%40, i%13, i%300), Line: int32(i%900 + 1),
		}))
	}
	write := func(id, at uint64, status tachyon.Status, handler, calls int, leaf ...uint32) {
		r := random.Float64()
		way, stack := int(729*r*r*r), leaf
		for i := range calls { // the innermost first
			stack = append(stack, frames[(120*handler+way/(i+1)+i)%len(frames)])
		}
		for i := range 8 {
			stack = append(stack, frames[(40*handler+8-i)%len(frames)])
		}
		samples++
		must(w.Write(&tachyon.Sample{Thread: id, Time: at, Status: status, Stack: stack}))
	}
	known := func(g tachyon.Goroutine) { must(w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{g}})) }
	for i := range uint64(perSecond * seconds) {
		id, first := uint64(1000+(part*seconds)*perSecond)+i, from+i*second/perSecond+1
		at := first
		for range 2 + random.IntN(5) {
			if random.IntN(5) < 2 {
				write(id, at, 0, int(id%12), 1, waits)
			} else {
				write(id, at, onCPU, int(id%12), 6)
			}
			at += uint64(300 + random.IntN(2000))
		}
		g := tachyon.Goroutine{ID: id, Parent: 7, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "/go/src/net/http/server.go:3493", First: first - from, Last: at - from, FirstWeight: 500}
		if labels {
			g.Labels = []tachyon.LabelSpan{{From: g.First, Labels: map[string]string{"request": strconv.FormatUint(id, 36), "handler": "h" + strconv.Itoa(int(id%12))}}}
		}
		known(g)
		must(w.Forget(id, 0))
		for stays := uint64(1); stays <= stay && i%50 == 0; stays++ {
			if i == 0 {
				known(tachyon.Goroutine{ID: stays, CreatedBy: "main.main", CreatedAt: "/src/app/main.go:20"})
			}
			write(stays, first, 0, int(stays), 0, selects)
		}
	}
	must(w.AddMetadata(tachyon.KindSession, tachyon.Session{
		Program: "app", Host: "host", PID: 100, Start: time.UnixMicro(int64(from)).UTC(), Duration: time.Duration(seconds) * time.Second, SessionStart: time.UnixMicro(start).UTC(), Part: part + 1,
		Source: "native", Rate: 1000, Markers: true, Counts: tachyon.Counts{Samples: samples, NotSeen: 1234567},
	}))
	must(w.Close())
}

// BenchmarkReport reports on a file of 60 s of an HTTP server under load, and on five of them. With
// GOTACH_BIG_FILES there are so many, for the table in docs/measurements.md.
func BenchmarkReport(b *testing.B) {
	dir, n := b.TempDir(), 5
	if many, err := strconv.Atoi(os.Getenv("GOTACH_BIG_FILES")); err == nil {
		n = many
	}
	paths := bigFiles(dir, n, 60, false)
	for _, n := range []int{1, n} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if code := run(append([]string{"report"}, paths[:n]...), nil, io.Discard, os.Stderr); code != 0 {
					b.Fatal(code)
				}
			}
		})
	}
}
