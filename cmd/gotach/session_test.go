package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/page"
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

// A getter gets what is at an address.
type getter func(address string) (body string, status int)

func fetch(address string) (string, int) {
	r := testenv.Must(http.Get(address))
	defer r.Body.Close()
	return string(testenv.Must(io.ReadAll(r.Body))), r.StatusCode
}

// waitFor waits until the server has newer data of a range than a generation.
func (get getter) waitFor(t *testing.T, url, query string, than int64) (s page.Status) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.Head == nil; time.Sleep(50 * time.Millisecond) {
		s = page.Status{}
		body, _ := get(fmt.Sprintf("%sdata/status?%s&generation=%d", url, query, than))
		err := json.Unmarshal([]byte(body), &s)
		testenv.StopIf(t, err != nil || s.Error != "" || time.Now().After(end), "%s: %v", body, err)
	}
	return s
}

// served calls a test with a server of files that are viewed, without a network and with the clock of testing/synctest.
func served(t *testing.T, v *viewed, test func(t *testing.T, get getter)) {
	v.warn = func(err error) { t.Error(err) }
	synctest.Test(t, func(t *testing.T) {
		s := page.NewServer(t.Context(), page.ServerOptions{Open: v.open, Version: v.version})
		defer s.Close()
		test(t, func(address string) (string, int) {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
			return w.Body.String(), w.Code
		})
	})
}

// TestViewLarge: of files that take long to read, some are shown first. A range needs only the files that have its time.
func TestViewLarge(t *testing.T) {
	dir := t.TempDir()
	const files, samples = 20, 900
	for n := range files {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("x.%02d.tach", n)), n, samples)
	}
	v := &viewed{sides: [][]string{{dir}}, large: 10 << 10}
	served(t, v, func(t *testing.T, get getter) {
		first := get.waitFor(t, "/", "", 0).Head
		some := first.Sides[0].Samples / samples
		want := fmt.Sprintf("%d of %d files", some, files)
		testenv.FailIf(t, first.Sketch != want || some < 2 || some > files/2, "it begins with %q and %d files, want %q", first.Sketch, some, want)
		// The first and the last file are there. In between nothing is recorded.
		testenv.Within(t, "µs at first", first.Sides[0].To, (files-1)*1_000_000+samples*1000, files*1_000_000)
		whole := get.waitFor(t, "/", "", 1)
		got := whole.Head.Sides[0].Samples
		testenv.FailIf(t, got != files*samples || whole.Head.Sketch != "" || !whole.Head.NoLatency, "then it has %d samples, %q", got, whole.Head.Sketch)
		start := int64(whole.Head.Sides[0].StartUS)
		span := page.Span{From: start + 7_100_000, To: start + 8_200_000}
		list, _ := v.timed([]string{dir}, span)
		testenv.FailIf(t, len(list) != 4 || filepath.Base(list[0].path) != "x.06.tach", "the range is in %v", list)
		part := get.waitFor(t, "/", fmt.Sprintf("from=%d&to=%d", span.From, span.To), 0)
		// 1.1 s less the 100 ms after the samples of each file
		testenv.Within(t, "samples of the range", part.Head.Sides[0].Samples, 995, 1005)
	})
	// Also if only some of the files are shown first, one that cannot be read is an error at the start.
	must(v.check())
	wrong := filepath.Join(dir, "x.02.tach")
	must(os.WriteFile(wrong, []byte("nothing"), 0o600))
	testenv.Fails(t, "with a wrong file", v.check(), wrong)
}

// TestViewGrows: while a program writes its file, what it wrote since then is shown too, and all when it is finished.
func TestViewGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: fixtureStart, Interval: 1000}))
	session := tachyon.Session{Program: "app", Source: "native", Rate: 1000, Start: time.UnixMicro(fixtureStart).UTC()}
	must(w.Provisional(tachyon.KindSession, session))
	f := &fixture{w: w}
	served(t, &viewed{sides: [][]string{{path}}}, func(t *testing.T, get getter) {
		generation := int64(0)
		for part := uint64(1); part <= 3; part++ {
			for ms := 100*part - 99; ms <= 100*part; ms++ {
				f.add(1, ms, onCPU, own("main.go", "work", 3+int(ms%2)))
			}
			if part == 3 {
				must(w.AddMetadata(tachyon.KindSession, session))
				must(w.Close())
			}
			var s page.Status
			for s.Head == nil || s.Head.Sides[0].Samples < int64(100*part) || s.Growing != (part < 3) { // the server reads when it wants to
				s = get.waitFor(t, "/", "", generation)
				generation = s.Generation
			}
			testenv.Same(t, "samples", s.Head.Sides[0].Samples, int64(100*part))
		}
	})
}
