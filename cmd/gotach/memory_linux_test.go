package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

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

	process tachyon.Session // which process it is
}

const bigStay = 40 // goroutines that stay

func newBigSession() *bigSession {
	b := &bigSession{rnd: rand.New(rand.NewPCG(1, 2)), now: 1_800_000_000_000_000, start: time.Unix(1_800_000_000, 0).UTC(), next: 1000, last: map[uint64]uint64{}, process: tachyon.Session{Program: "app", Host: "host", PID: 100}}
	for i := range 1500 {
		b.frames = append(b.frames, tachyon.Frame{
			File: fmt.Sprintf("/src/app/pkg%d/file%d.go", i%40, i%200), Func: fmt.Sprintf("example.com/app/pkg%d.(*Type%d).method%d", i%40, i%13, i%300), Line: int32(i%900 + 1),
		})
	}
	return b
}

// file writes a file of some seconds. Each second has perSecond short goroutines.
func (b *bigSession) file(tb testing.TB, path string, part, seconds, perSecond int) {
	tb.Helper()
	from := b.now
	w, err := writer.Create(path, writer.Options{Start: from, Interval: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	check := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	wait := w.Intern(tachyon.Frame{Func: "[IO wait]"})
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
		check(w.Write(&tachyon.Sample{Thread: id, Time: at, Status: status, Stack: stack}))
	}
	records := func(list ...tachyon.Goroutine) { check(w.WriteRecords(&tachyon.Records{Goroutines: list})) }
	const running = tachyon.HasGIL | tachyon.OnCPU
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
					write(id, at, 0, append([]uint32{wait}, stack(root, 1)...))
				} else {
					write(id, at, running, stack(root, 6))
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
			check(w.Forget(id, 0))
			if id%50 == 0 {
				for stay := uint64(1); stay <= bigStay; stay++ {
					if _, known := b.last[stay]; !known || b.last[stay] < from {
						g := tachyon.Goroutine{ID: stay, CreatedBy: "main.main", CreatedAt: "/src/app/main.go:20", First: b.now - from}
						if known {
							g.FirstWeight = b.now - b.last[stay]
						}
						records(g)
					}
					b.last[stay] = b.now
					write(stay, b.now, 0, append([]uint32{selects}, stack(int(stay), 0)...))
				}
			}
		}
	}
	session := b.process
	session.Start, session.Duration, session.SessionStart, session.Part = time.UnixMicro(int64(from)).UTC(), time.Duration(b.now-from)*time.Microsecond, b.start, part
	session.Source, session.Rate, session.Markers, session.Counts = "native", 1000, true, tachyon.Counts{Samples: int64(samples), NotSeen: 1234567}
	check(w.AddMetadata(tachyon.KindSession, session))
	check(w.Close())
}

// files writes n files of some seconds.
func (b *bigSession) files(tb testing.TB, dir string, n, seconds int) (paths []string) {
	tb.Helper()
	for i := range n {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("app.%d.tach", i+1)))
		b.file(tb, paths[i], i+1, seconds, 4550)
	}
	return paths
}

// memory runs gotach in a process of its own and returns the most memory that it had, in bytes.
func memory(t *testing.T, args ...string) int64 {
	t.Helper()
	cmd := testCommand(t, "gotach", args...)
	cmd.Env = append(os.Environ(), "GOGC=") // as users have it
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gotach %v: %v\n%s", args[0], err, out)
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// Memory hardly grows with the number of files, samples and goroutines. Two files are in memory at once:
// one is read while the next one is decoded.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	paths := newBigSession().files(t, dir, 10, 3)
	for _, args := range [][]string{
		{"report"},
		{"report", "--json"},
		{"report", "--by", "line"},
		{"convert", "-o", filepath.Join(dir, "out.folded")},
		{"convert", "-o", filepath.Join(dir, "out.pb.gz")},
	} {
		few, many := memory(t, append(args, paths[:2]...)...), memory(t, append(args, paths...)...)
		t.Logf("%v: %d MB for two files, %d MB for ten", args, few>>20, many>>20)
		// The files' tables and the last samples of goroutines that may come again take some.
		if many > 5*few/2+16<<20 {
			t.Errorf("%v: %d bytes of memory for two files, %d for ten", args, few, many)
		}
	}
}

// A file that is written again from others keeps what is known of all goroutines. With a label of their own for each of
// 270,000, that takes at most 200 MB.
func TestMemoryConvertLabels(t *testing.T) {
	dir := t.TempDir()
	b := newBigSession()
	b.labels = true
	paths := []string{filepath.Join(dir, "app.1.tach"), filepath.Join(dir, "app.2.tach")}
	for i, path := range paths {
		b.file(t, path, i+1, 30, 4550)
	}
	out := filepath.Join(dir, "out.tach")
	most := memory(t, append([]string{"convert", "-o", out}, paths...)...)
	t.Logf("%d MB", most>>20)
	if most > 200<<20 {
		t.Errorf("%d bytes of memory", most)
	}
	if info, err := os.Stat(out); err != nil || info.Size() < 8<<20 {
		t.Errorf("the file is too small to have the labels: %v, %v", info, err)
	}
}

// BenchmarkReport reports on a file of 60 s of an HTTP server under load, and on five of them. With
// GOTACH_BIG the files are written to that folder, for measurements by hand; GOTACH_BIG_FILES is
// their number.
func BenchmarkReport(b *testing.B) {
	dir, n := os.Getenv("GOTACH_BIG"), 5
	if dir == "" {
		dir = b.TempDir()
	} else if many, err := strconv.Atoi(os.Getenv("GOTACH_BIG_FILES")); err == nil {
		n = many
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	paths := newBigSession().files(b, dir, n, 60)
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
