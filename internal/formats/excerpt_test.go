package formats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// TestExcerpt compares an excerpt of two files, the second of which is being written, with what the
// files have after its start: the time of each goroutine and stack, creators, labels and objects.
func TestExcerpt(t *testing.T) {
	const (
		begin  = 1_700_000_000_000_000
		second = begin + 2_000_000
		from   = begin + 1_300_000
		end    = begin + 3_000_000
	)
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	paths := []string{filepath.Join(dir, "x.1.tach"), filepath.Join(dir, "x.2.tach")}
	want, last := map[string]uint64{}, map[uint64]uint64{}
	set := func(i int) map[string]string { return map[string]string{"n": fmt.Sprint(i)} }
	for i, start := range []uint64{begin, second} {
		w := testenv.Must(writer.Create(paths[i], writer.Options{Start: start, Interval: 1000}))
		defer w.Close()
		stop := []uint64{second, end}[i]
		for now := start + 1000; now <= stop; now += 1000 {
			for g := range uint64(20) {
				// Some goroutines are sampled rarely, and some begin in the excerpt. All have a sample of
				// the first file in it.
				if g > 15 && now < from+100_000 || now != from+100_000 && random.IntN(1+int(g)*5) != 0 {
					continue
				}
				f := fmt.Sprintf("main.f%d", random.IntN(5))
				testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: g + 1, Time: now}, []tachyon.Frame{{Func: f}, {Func: "main.main"}}))
				weight := uint64(1000)
				if l, ok := last[g]; ok {
					weight = now - max(l, from)
				} else if g > 15 {
					weight = 5000
				}
				if last[g] = now; now > from {
					want[fmt.Sprint(g+1, f)] += weight
				}
			}
		}
		var r tachyon.Records
		for g := range uint64(20) {
			part := tachyon.Goroutine{ID: g + 1, Parent: 1, CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{From: 0, Labels: set(0)}}}
			if i == 0 {
				part.Labels = append(part.Labels, tachyon.LabelSpan{From: 1_000_000, Labels: set(1)}, tachyon.LabelSpan{From: 1_500_000, Labels: set(0)})
			}
			if g > 15 && i == 0 {
				part.FirstWeight = 5000
			}
			if g == 7 && i == 1 {
				part.Labels = nil
			}
			r.Goroutines = append(r.Goroutines, part)
		}
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: 99, CreatedBy: "main.gone"}) // not in the excerpt
		r.Objects = []tachyon.Object{{Number: 3, Kind: "channel", Capacity: int64(i)}}
		testenv.OK(t, errors.Join(w.WriteRecords(&r), w.Provisional(tachyon.KindSession, &tachyon.Session{PID: 7, Error: "the session was not stopped"})))
		if i == 0 {
			testenv.OK(t, w.Close())
		}
	}
	out := filepath.Join(dir, "out.tach")
	testenv.OK(t, Excerpt(t.Context(), out, paths, time.UnixMicro(from)))
	r := testenv.Must(reader.Open(out))
	defer r.Close()
	got := map[string]uint64{}
	for s := range plain(t, r) {
		got[fmt.Sprint(s.Thread, r.Frames()[s.Stack[0]].Func)] += s.Weight
		if s.Time <= from || s.Time-s.Weight < from {
			t.Errorf("a sample at %d µs with a weight of %d µs", s.Time-from, s.Weight)
		}
	}
	for k, v := range want {
		// Less than one and a half intervals count as one.
		testenv.Within(t, "µs of goroutine and function "+k, got[k], v-500, v+500)
	}
	testenv.Same(t, "sums", len(got), len(want))
	m := testenv.Must(r.Metadata())
	s := m.Session
	testenv.Same(t, "the session", fmt.Sprint(s.PID, s.Error, s.Samples, s.Duration, s.Start.UnixMicro()), fmt.Sprint(7, "", r.Header().Samples, reader.Micros(end-from), from))
	testenv.NoDiff(t, "objects", cmp.Diff([]tachyon.Object{{Number: 3, Kind: "channel", Capacity: 1}}, m.Objects))
	testenv.Same(t, "goroutines", len(m.Goroutines), 20)
	for _, g := range m.Goroutines {
		labels := []tachyon.LabelSpan{{Labels: set(1)}, {From: begin + 1_500_000 - from, Labels: set(0)}}
		if g.ID == 8 {
			labels = append(labels, tachyon.LabelSpan{From: second - from, Labels: map[string]string{}})
		}
		testenv.NoDiff(t, fmt.Sprint("labels of ", g.ID), cmp.Diff(labels, g.Labels))
		testenv.Same(t, fmt.Sprint("goroutine ", g.ID), fmt.Sprint(g.CreatedBy, g.Parent, g.Last <= end-from), "main.main1 true")
	}
	// Nothing is known of the time before the first file, and files of other sessions do not help.
	err := Excerpt(t.Context(), out, paths, time.UnixMicro(begin-1))
	testenv.Is(t, "before the session", err, ErrNoPast)
	testenv.Fails(t, "before the session", err, "begin")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	testenv.Is(t, "canceled", Excerpt(ctx, out, paths, time.UnixMicro(from)), gone)
}

// TestWindow: a window has the time of each goroutine between its start and its end, also where a goroutine is
// sampled before and after only, or only after, and nothing of one that begins later.
func TestWindow(t *testing.T) {
	const begin = 1_700_000_000_000_000
	in, out := filepath.Join(t.TempDir(), "in.tach"), filepath.Join(t.TempDir(), "out.tach")
	w := testenv.Must(writer.Create(in, writer.Options{Start: begin, Interval: 1000}))
	defer w.Close() // it is being written
	sample := func(id, at uint64) {
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: id, Time: begin + at}, []tachyon.Frame{{Func: fmt.Sprint("f", id)}}))
	}
	for at := uint64(1000); at <= 60_000; at += 1000 {
		sample(1, at) // always
		if at == 10_000 || at == 35_000 || at == 50_000 {
			sample(2, at) // rarely
		}
		if at == 10_000 || at == 50_000 {
			sample(3, at) // not within the window
		}
		if at > 45_000 {
			sample(4, at) // later
		}
		if at == 45_000 {
			sample(5, at) // later, but it has waited for some time
			sample(6, at) // the same, since before the window
		}
	}
	r := &tachyon.Records{}
	weights := map[uint64]uint64{5: 15_000, 6: 44_000}
	for id := range uint64(6) {
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: id + 1, FirstWeight: weights[id+1], CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{Labels: map[string]string{"a": "b"}}, {From: 50_000, Labels: map[string]string{}}}})
	}
	testenv.OK(t, errors.Join(w.WriteRecords(r), w.Provisional(tachyon.KindSession, &tachyon.Session{PID: 7})))
	testenv.OK(t, Window(t.Context(), out, in, time.UnixMicro(begin+20_000), time.UnixMicro(begin+40_000)))
	o := testenv.Must(reader.Open(out))
	defer o.Close()
	got := map[uint64]uint64{}
	for s := range plain(t, o) {
		got[s.Thread] += s.Weight
		if s.Time <= begin+20_000 || s.Time > begin+40_000 || s.Time-s.Weight < begin+20_000 {
			t.Errorf("a sample at %d µs with a weight of %d µs", s.Time-begin, s.Weight)
		}
	}
	testenv.NoDiff(t, "times of goroutines", cmp.Diff(map[uint64]uint64{1: 20_000, 2: 20_000, 3: 20_000, 5: 10_000, 6: 20_000}, got))
	m := testenv.Must(o.Metadata())
	testenv.Same(t, "duration, start, goroutines", fmt.Sprint(m.Session.Duration, m.Session.Start.UnixMicro(), len(m.Goroutines)), fmt.Sprint(20*time.Millisecond, begin+20_000, 5))
	for _, g := range m.Goroutines {
		if len(g.Labels) != 1 || g.Labels[0].From != 0 || g.Last > 20_000 {
			t.Errorf("goroutine %+v", g)
		}
	}
}

const stopsBegin = 1_700_000_000_000_000

// stopsFile writes a file of a process with a sample, and stops of goroutines 5 and 6 at each of the times.
func stopsFile(t *testing.T, path string, pid, part int, start uint64, until ...uint64) {
	t.Helper()
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000}))
	testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 5, Time: start + 1000}, []tachyon.Frame{{File: "a.go", Func: "main.f", Line: 7}}))
	for _, at := range until {
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Stops: &tachyon.Stops{Until: at, List: []tachyon.GoroutineStops{{ID: 5, N: at / 1000}, {ID: 6, N: uint64(pid), AtLeast: true}}}}))
	}
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Host: "h", PID: pid, Part: part, Stops: true, Duration: time.Second,
		Start: time.UnixMicro(int64(start)), SessionStart: time.UnixMicro(stopsBegin)}))
	testenv.OK(t, w.Close())
}

// stopsIn returns the stops of a stream of files as text. Times are in ms since the first file's start.
func stopsIn(t *testing.T, paths ...string) string {
	t.Helper()
	var files []stream.File
	for _, path := range paths {
		r := testenv.Must(reader.Open(path))
		defer r.Close()
		files = append(files, stream.File{Name: path, Stream: r})
	}
	src := testenv.Must(stream.New(files, stream.Options{}))
	var b strings.Builder
	for s := range testenv.All(t, src.Stops()) {
		begin := src.Header().Start
		fmt.Fprintf(&b, "%d-%d:", int64(s.From-begin)/1000, int64(s.Until-begin)/1000)
		for _, g := range s.List {
			fmt.Fprintf(&b, " %d %d", g.Goroutine, g.N)
			if g.AtLeast {
				b.WriteByte('+')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestStops reads stops of several files, of their joined copy, of other formats' copies and of excerpts.
func TestStops(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	stopsFile(t, path("1.tach"), 4, 1, stopsBegin, 1_000_000, 2_000_000)
	stopsFile(t, path("2.tach"), 4, 2, stopsBegin+3_000_000, 500_000)
	stopsFile(t, path("other.tach"), 9, 1, stopsBegin+100_000, 700_000)
	files := []string{path("1.tach"), path("2.tach")}
	const want = "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n3000-3500: 5 500 6 4+\n"
	testenv.Same(t, "of two files", stopsIn(t, files...), want)
	testenv.Same(t, "of two processes", stopsIn(t, append(files, path("other.tach"))...), "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n100-800: 1000000000005 700 1000000000006 9+\n3000-3500: 5 500 6 4+\n")
	convert := func(out string, from ...string) string {
		t.Helper()
		in := testenv.Must(OpenAll(from, Options{}))
		defer in.Close()
		testenv.OK(t, in.Convert(path(out), "", Options{}))
		return path(out)
	}
	const joined = "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n2000-3000:\n3000-3500: 5 500 6 4+\n"
	testenv.Same(t, "of the joined file", stopsIn(t, convert("joined.tach", files...)), joined)
	testenv.Same(t, "of the joined file, as lines and back", stopsIn(t, convert("again.tach", convert("x.jsonl", files...))), joined)
	testenv.Same(t, "of the joined file of two processes", stopsIn(t, convert("processes.tach", files[0], path("other.tach"))), "")
	at := func(ms int64) time.Time { return time.UnixMicro(stopsBegin + ms*1000) }
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{0, 2500, "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n"},
		{500, 2000, "0-500:\n500-1500: 5 2000 6 4+\n"},
		{1000, 1999, ""},
	} {
		testenv.OK(t, Window(t.Context(), path("window.tach"), files[0], at(c.from), at(c.to)))
		testenv.Same(t, fmt.Sprint("from and to ", c.from, c.to), stopsIn(t, path("window.tach")), c.want)
	}
	testenv.OK(t, Excerpt(t.Context(), path("excerpt.tach"), files, at(1500)))
	testenv.Same(t, "of an excerpt", stopsIn(t, path("excerpt.tach")), "0-1500:\n1500-2000: 5 500 6 4+\n")
}
