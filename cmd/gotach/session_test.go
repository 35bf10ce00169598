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

// A bigSession writes files like those of an HTTP server under load that is recorded with
// rotation: some goroutines that stay, and many short ones, each with a creator and a few samples.
// All is made by a random generator with a fixed seed.
type bigSession struct {
	rnd    *rand.Rand
	now    uint64 // µs
	start  time.Time
	next   uint64            // id of the next short goroutine
	last   map[uint64]uint64 // time of the last sample of goroutines that stay
	labels bool              // short goroutines have a label of their own
	frames []tachyon.Frame
}

const bigStay = 40 // goroutines that stay

func newBigSession() *bigSession {
	b := &bigSession{rnd: rand.New(rand.NewPCG(1, 2)), now: 1_800_000_000_000_000, start: time.Unix(1_800_000_000, 0).UTC(), next: 1000, last: map[uint64]uint64{}}
	for i := range 1500 {
		b.frames = append(b.frames, tachyon.Frame{
			File: fmt.Sprintf("/src/app/pkg%d/file%d.go", i%40, i%200), Func: fmt.Sprintf("example.com/app/pkg%d.(*Type%d).method%d", i%40, i%13, i%300), Line: int32(i%900 + 1),
		})
	}
	return b
}

// file writes a file of some seconds. Each second has perSecond short goroutines.
func (b *bigSession) file(path string, part, seconds int) {
	const perSecond = 4550
	from := b.now
	w := testenv.Must(writer.Create(path, writer.Options{Start: from, Interval: 1000}))
	waits := w.Intern(tachyon.Frame{Func: "[IO wait]"})
	selects := w.Intern(tachyon.Frame{Func: "[select]"})
	ids := make([]uint32, len(b.frames))
	for i, f := range b.frames {
		ids[i] = w.Intern(f)
	}
	// stack returns a stack of a handler, innermost first: 8 frames that all its requests have, then
	// calls, each one of three that its caller makes. Most requests take the same few ways.
	stack := func(handler, calls int) []uint32 {
		r := b.rnd.Float64()
		way := int(729 * r * r * r)
		s := make([]uint32, 8+calls)
		frame := 40 * handler
		for i := range s {
			if frame++; i >= 8 {
				frame = 3*frame + way%3
				way /= 3
			}
			s[len(s)-1-i] = ids[frame%len(ids)]
		}
		return s
	}
	samples := uint64(0)
	write := func(id, at uint64, status tachyon.Status, stack []uint32) {
		samples++
		must(w.Write(&tachyon.Sample{Thread: id, Time: at, Status: status, Stack: stack}))
	}
	records := func(list ...tachyon.Goroutine) { must(w.WriteRecords(&tachyon.Records{Goroutines: list})) }
	for range seconds {
		for range perSecond {
			b.now += uint64(1_000_000 / perSecond)
			id := b.next
			b.next++
			at := b.now
			root := int(id % 12)
			weight := uint64(200 + b.rnd.IntN(800))
			first := at
			for range 2 + b.rnd.IntN(5) {
				if b.rnd.IntN(5) < 2 {
					write(id, at, 0, append([]uint32{waits}, stack(root, 1)...))
				} else {
					write(id, at, onCPU, stack(root, 6))
				}
				at += uint64(300 + b.rnd.IntN(2000))
			}
			g := tachyon.Goroutine{
				ID: id, Parent: 7, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "/go/src/net/http/server.go:3493",
				First: first - from, Last: at - from, FirstWeight: weight,
			}
			if b.labels {
				g.Labels = []tachyon.LabelSpan{{From: g.First, Labels: map[string]string{"request": strconv.FormatUint(id, 36), "handler": "h" + strconv.Itoa(root)}}}
			}
			records(g)
			must(w.Forget(id, 0))
			if id%50 == 0 {
				for stay := uint64(1); stay <= bigStay; stay++ {
					if last := b.last[stay]; last < from {
						g := tachyon.Goroutine{ID: stay, CreatedBy: "main.main", CreatedAt: "/src/app/main.go:20", First: b.now - from}
						if last > 0 {
							g.FirstWeight = b.now - last
						}
						records(g)
					}
					b.last[stay] = b.now
					write(stay, b.now, 0, append([]uint32{selects}, stack(int(stay), 0)...))
				}
			}
		}
	}
	must(w.AddMetadata(tachyon.KindSession, tachyon.Session{
		Program: "app", Host: "host", PID: 100, Start: time.UnixMicro(int64(from)).UTC(), Duration: time.Duration(b.now-from) * time.Microsecond, SessionStart: b.start, Part: part,
		Source: "native", Rate: 1000, Markers: true, Counts: tachyon.Counts{Samples: int64(samples), NotSeen: 1234567},
	}))
	must(w.Close())
}

// files writes n files of some seconds.
func (b *bigSession) files(dir string, n, seconds int) (paths []string) {
	for i := range n {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("app.%d.tach", i+1)))
		b.file(paths[i], i+1, seconds)
	}
	return paths
}

// BenchmarkReport reports on a file of 60 s of an HTTP server under load, and on five of them. With
// GOTACH_BIG_FILES there are so many, for the table in docs/measurements.md.
func BenchmarkReport(b *testing.B) {
	dir, n := b.TempDir(), 5
	if many, err := strconv.Atoi(os.Getenv("GOTACH_BIG_FILES")); err == nil {
		n = many
	}
	paths := newBigSession().files(dir, n, 60)
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
