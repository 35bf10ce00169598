package formats

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/spx"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// weights sums up the weights of a file, and the time that has no sample.
func weights(t *testing.T, r *reader.Reader) (sum uint64, threads map[threadID]uint64) {
	t.Helper()
	threads = map[threadID]uint64{}
	for s := range plain(t, r) {
		sum += s.Weight
		threads[threadID{s.Thread, s.Interpreter}] += s.Weight
	}
	m := testenv.Must(r.Metadata())
	if m.Session != nil {
		sum += uint64(m.Session.NotSeen.Microseconds())
	}
	return sum, threads
}

// sameSums fails unless all views of an input have the sums of the file that is written of it. It returns the sum.
func sameSums(t *testing.T, in *Input) uint64 {
	t.Helper()
	all := written(t, t.TempDir(), in)
	defer all.Close()
	sum, threads := weights(t, all)
	want := reader.Micros(sum)
	p := testenv.Must(in.Profile())
	if wall, _ := p.Total(); wall != want {
		t.Errorf("the profile has %v, the weights are %v", wall, want)
	}
	tl := testenv.Must(spx.NewTimeline(testenv.Must(in.Source(stream.Options{}))))
	if tl.Wall != want {
		t.Errorf("the timeline has %v, the weights are %v", tl.Wall, want)
	}
	for _, g := range tl.Goroutines {
		var wall time.Duration
		for _, r := range g.Runs {
			wall += r.Wall
		}
		if g.Interpreter == tachyon.Process && g.ID == 0 { // time that has no sample
			continue
		}
		if want := reader.Micros(threads[threadID{g.ID, g.Interpreter}]); wall != want || g.Start < 0 {
			t.Errorf("goroutine %d has %v from %v on, its weights are %v", g.ID, wall, g.Start, want)
		}
	}
	if m, err := all.Metadata(); err != nil || m.Session == nil {
		return sum // only what gotach recorded is made into even samples
	}
	path := filepath.Join(t.TempDir(), "even.bin")
	testenv.OK(t, in.Convert(path, "", Options{}))
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	_, evened := weights(t, r)
	interval := r.Header().Interval
	count := map[threadID]uint64{}
	for s, err := range r.Samples() {
		testenv.OK(t, err)
		count[threadID{s.Thread, s.Interpreter}]++
	}
	for id, weight := range threads {
		if got := evened[id]; got != count[id]*interval {
			t.Errorf("thread %v: the weights of %d even samples of %d µs are %d µs", id, count[id], interval, got)
		}
		if n := count[id] * interval; n+interval < weight || n > weight+interval {
			t.Errorf("thread %v has %d even samples of %d µs, its weights are %d µs", id, count[id], interval, weight)
		}
	}
	return sum
}

func TestSumsOfGoldens(t *testing.T) {
	files := testenv.Files(t, "../../testdata/tachyon/*/*.bin", 10)
	for _, name := range files {
		far := strings.HasSuffix(name, "/rle.bin") // times that sums cannot take
		if filepath.Base(filepath.Dir(name)) != "bad" && !strings.Contains(name, ".zstd.") && !far {
			sameSums(t, openInput(t, name, Options{}))
		}
	}
}

// A session whose goroutines wait and are seen rarely, in files of 100 ms, the last
// one of which was not finished.
func TestSumsOfSession(t *testing.T) {
	const ms, parts = 1000, 4
	dir := t.TempDir()
	var paths []string
	last := map[uint64]uint64{}
	for part := range uint64(parts) {
		start := joinStart + part*100*ms
		var samples []tachyon.Sample
		first := map[uint64]uint64{}
		for tick := range uint64(100) {
			at := start + tick*ms + tick%7
			for id := range uint64(10) {
				if id > 5 && tick%(id*id) != part { // one that waits
					continue
				}
				if _, seen := first[id]; !seen {
					first[id] = ms
					if before, ok := last[id]; ok {
						first[id] = at - before
					}
				}
				last[id] = at
				samples = append(samples, tachyon.Sample{Thread: id, Time: at, Status: tachyon.Status(id % 4)})
			}
		}
		path := filepath.Join(dir, fmt.Sprint(part, ".tach"))
		paths = append(paths, path)
		session := tachyon.Session{PID: 1, SessionStart: time.UnixMicro(joinStart), Part: int(part) + 1}
		if part == parts-1 {
			killedFile(t, path, start, ms, samples)
			continue
		}
		var goroutines []tachyon.Goroutine
		for id, weight := range first {
			goroutines = append(goroutines, tachyon.Goroutine{ID: id, FirstWeight: weight})
		}
		partFile(t, path, session, start, ms, samples, goroutines...)
	}
	var separate uint64
	for part, path := range paths {
		if sum := sameSums(t, openInput(t, path, Options{})); part < parts-1 {
			separate += sum
		}
	}
	in := testenv.Must(OpenAll(paths[:parts-1], Options{}))
	defer in.Close()
	if joined := sameSums(t, in); joined != separate {
		t.Errorf("joined, the files have %d µs, one by one %d", joined, separate)
	}
}

// killedFile writes a file whose program did not get to finish it.
func killedFile(t *testing.T, path string, start, interval uint64, samples []tachyon.Sample) {
	t.Helper()
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: interval}))
	for _, s := range samples {
		testenv.OK(t, w.WriteFrames(&s, []tachyon.Frame{{File: "a.go", Func: "f"}}))
	}
	t.Cleanup(func() { w.Close() })
}
