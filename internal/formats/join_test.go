package formats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"pgregory.net/rapid"
)

const joinStart = 1_700_000_000_000_000

// partFile writes a file of a session.
func partFile(t rapid.TB, path string, s tachyon.Session, start, interval uint64, samples []tachyon.Sample, goroutines ...tachyon.Goroutine) {
	t.Helper()
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: interval, NoJournal: true}))
	for _, s := range samples {
		testenv.OK(t, w.WriteFrames(&s, []tachyon.Frame{{File: "a.go", Func: fmt.Sprint("f", s.Time%3)}, {File: "a.go", Func: "main"}}))
	}
	s.Start = time.UnixMicro(int64(start))
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, s))
	testenv.OK(t, w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": goroutines}))
	testenv.OK(t, w.Close())
}

// Three files of one session, and one of another process.
func TestJoinTimes(t *testing.T) {
	const ms = 1000
	dir := t.TempDir()
	name := func(n string) string { return filepath.Join(dir, n) }
	at := func(list ...uint64) (samples []tachyon.Sample) {
		for _, at := range list {
			samples = append(samples, tachyon.Sample{Thread: 5, Time: joinStart + at*ms})
		}
		return samples
	}
	session := func(part int) tachyon.Session {
		return tachyon.Session{Program: "p", PID: 7, Part: part, SessionStart: time.UnixMicro(joinStart), Duration: 100 * time.Millisecond, Rate: 1000, RateReached: 900, Counts: tachyon.Counts{TicksAsked: 100, TicksReached: 90}}
	}
	partFile(t, name("1"), session(1), joinStart, ms, at(1, 40, 90), tachyon.Goroutine{ID: 5})
	partFile(t, name("2"), session(2), joinStart+100*ms, ms, at(120, 190), tachyon.Goroutine{ID: 5, FirstWeight: 30 * ms})
	partFile(t, name("3"), session(3), joinStart+200*ms, ms, at(240, 250), tachyon.Goroutine{ID: 5, FirstWeight: 50 * ms})
	partFile(t, name("cut"), session(3), joinStart+200*ms, ms, at(240, 250)) // its program was killed
	other := session(1)
	other.PID = 8
	partFile(t, name("other"), other, joinStart+50*ms, 10*ms, at(60, 70), tachyon.Goroutine{ID: 5})

	for _, tc := range []struct {
		files string
		seen  map[uint64]time.Duration // ms
		gap   time.Duration            // ms
	}{
		{"1", map[uint64]time.Duration{5: 90}, 0},
		{"2", map[uint64]time.Duration{5: 100}, 0},
		{"1 2 3", map[uint64]time.Duration{5: 250}, 0},
		{"3 1 2", map[uint64]time.Duration{5: 250}, 0},
		{"1 2 cut", map[uint64]time.Duration{5: 250}, 0},
		{"2 3", map[uint64]time.Duration{5: 160}, 0},
		{"1 3", map[uint64]time.Duration{5: 90 + 60}, 100},
		{"1 cut", map[uint64]time.Duration{5: 90 + 11}, 149},
		{"1 1 1", map[uint64]time.Duration{5: 90}, 0},
		{"1 other", map[uint64]time.Duration{5: 90, 1_000_000_000_005: 20}, 0},
	} {
		var paths []string
		for _, f := range strings.Fields(tc.files) {
			paths = append(paths, name(f))
		}
		in := testenv.Closes(t, testenv.Must(OpenAll(paths, Options{})))
		p := testenv.Must(in.Profile())
		seen, gap := map[uint64]time.Duration{}, time.Duration(0)
		for _, r := range p.Records {
			if r.State == "not recorded" {
				gap += r.Wall
			} else {
				seen[r.Goroutine] += r.Wall / time.Millisecond
			}
		}
		testenv.Same(t, tc.files+": time not recorded", gap, tc.gap*time.Millisecond)
		testenv.Same(t, tc.files+": ticks a second, as in each file", p.Metadata.Session.RateReached, 900)
		testenv.NoDiff(t, tc.files, cmp.Diff(tc.seen, seen))
	}
}

// A copy of many files knows of each thread the file with its last sample.
func TestCopyEnded(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for part := range uint64(3) {
		start := joinStart + part*100_000
		var samples []tachyon.Sample
		for _, id := range []uint64{7, 10 + part, 20 + part/2} { // in all files, in one, in one or two
			samples = append(samples, tachyon.Sample{Thread: id, Time: start + 500}, tachyon.Sample{Thread: id, Time: start + 900})
		}
		path := filepath.Join(dir, fmt.Sprint(part, ".tach"))
		partFile(t, path, tachyon.Session{PID: 1, SessionStart: time.UnixMicro(joinStart), Part: int(part) + 1}, start, 1000, samples)
		paths = append(paths, path)
	}
	in := testenv.Closes(t, testenv.Must(OpenAll(paths, Options{})))
	c := testenv.Must(testenv.Must(in.all()).Copy())
	testenv.NoDiff(t, "", cmp.Diff([][]reader.Thread{{{ID: 10}}, {{ID: 11}, {ID: 20}}, {{ID: 7}, {ID: 12}, {ID: 21}}}, c.Ended))
}

// Goroutines of several processes have labels in the joined file that say of which process they are, whatever labels they
// have of their own.
func TestJoinProcessLabels(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a.tach"), filepath.Join(dir, "b.tach")}
	own := tachyon.Goroutine{ID: 2, First: 10_000, Last: 30_000, Labels: []tachyon.LabelSpan{
		{From: 20_000, Labels: map[string]string{"route": "/", "version": "own"}}, {From: 30_000, Labels: map[string]string{}},
	}}
	for i, path := range paths {
		start := uint64(joinStart + i*1_000_000)
		var samples []tachyon.Sample
		for at := uint64(10_000); at <= 30_000; at += 10_000 {
			for id := uint64(1); id <= 3; id++ { // nothing is said of 3
				samples = append(samples, tachyon.Sample{Thread: id, Time: start + at})
			}
		}
		s := tachyon.Session{Program: "x", Host: fmt.Sprint("web-", i), PID: 7, Service: fmt.Sprint("shop-", i), ServiceVersion: fmt.Sprint("v", i)}
		partFile(t, path, s, start, 10_000, samples, tachyon.Goroutine{ID: 1, First: 10_000, Last: 30_000}, own)
	}
	// byLabel returns the wall time in ms by the value of a label.
	byLabel := func(key string, paths ...string) map[string]int64 {
		in := testenv.Closes(t, testenv.Must(OpenAll(paths, Options{})))
		src := testenv.Must(in.Source(stream.Options{Labels: true}))
		sums := map[string]int64{}
		for s := range testenv.All(t, src.Samples()) {
			v, _ := src.Label(s.Labels, key)
			sums[v] += s.Wall.Milliseconds()
		}
		return sums
	}
	all := filepath.Join(dir, "all.tach")
	in := testenv.Closes(t, testenv.Must(OpenAll(paths, Options{})))
	testenv.OK(t, in.Convert(all, "tach", Options{}))
	for _, key := range []string{"host", "pid", "process", "service", "version", "route"} {
		want := byLabel(key, paths...)
		testenv.NoDiff(t, key, cmp.Diff(want, byLabel(key, all)))
		if key == "host" && (want["web-0"] != 90 || want["web-1"] != 90) || key == "service" && (want["shop-0"] != 90 || want["shop-1"] != 90) ||
			key == "version" && (want["own"] != 20 || want["v0"] != 80 || want["v1"] != 80) || key == "route" && want["/"] != 20 {
			t.Errorf("%s: %v", key, want)
		}
	}
}

// objectFile writes a file in which one goroutine waits for each of the objects.
func objectFile(t *testing.T, path string, s tachyon.Session, start uint64, objects ...tachyon.Object) {
	t.Helper()
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000, NoJournal: true}))
	for i, o := range objects {
		stack := []tachyon.Frame{{Func: "[select]", Line: o.Number}, {File: "a.go", Func: "main." + o.Symbol, Line: 7}}
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 5, Time: start + uint64(i+1)*1000}, stack))
	}
	testenv.OK(t, w.WriteRecords(&tachyon.Records{Objects: objects}))
	s.Start = time.UnixMicro(int64(start))
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, s))
	testenv.OK(t, w.Close())
}

// waitedFor returns what the samples of a stream say that goroutines wait for: the function of the
// second frame, and the object's symbol, with those of its members.
func waitedFor(t *testing.T, s *reader.Reader) (list []string) {
	t.Helper()
	m := testenv.Must(s.Metadata())
	objects := map[int32]tachyon.Object{}
	for _, o := range m.Objects {
		_, ok := objects[o.Number]
		testenv.FailIf(t, ok, "two objects have the number %d", o.Number)
		objects[o.Number] = o
	}
	frames := s.Frames()
	for sample := range testenv.All(t, s.Samples()) {
		o := objects[frames[sample.Stack[0]].Line]
		text := fmt.Sprintf("%s %s", frames[sample.Stack[1]].Func, o.Symbol)
		for _, member := range o.Members {
			text += "+" + objects[member].Symbol
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// Files of one process have the same numbers, files of different processes have not.
func TestJoinObjects(t *testing.T) {
	dir := t.TempDir()
	name := func(n string) string { return filepath.Join(dir, n+".tach") }
	session := func(pid, part int) tachyon.Session {
		return tachyon.Session{Program: "p", PID: pid, Part: part, SessionStart: time.UnixMicro(joinStart), Duration: 50 * time.Millisecond}
	}
	a := tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Symbol: "a"}
	b := tachyon.Object{Number: 3, Kind: tachyon.ObjectChannel, Symbol: "b", Capacity: 4}
	set := tachyon.Object{Number: 4, Kind: tachyon.ObjectSelect, Symbol: "set", Members: []int32{1, 3}}
	c := tachyon.Object{Number: 1, Kind: tachyon.ObjectCond, Symbol: "c"}
	d := tachyon.Object{Number: 3, Kind: tachyon.ObjectChannel, Symbol: "d"}
	objectFile(t, name("1"), session(7, 1), joinStart, a, b)
	objectFile(t, name("2"), session(7, 2), joinStart+100_000, a, b, set)
	objectFile(t, name("other"), session(8, 1), joinStart+50_000, d, c)
	in := testenv.Closes(t, testenv.Must(OpenAll([]string{name("1"), name("2"), name("other")}, Options{})))
	s := written(t, dir, in)
	defer s.Close()
	want := []string{"main.a a", "main.a a", "main.b b", "main.b b", "main.c c", "main.d d", "main.set set+a+b"}
	testenv.NoDiff(t, "", cmp.Diff(want, waitedFor(t, s)))
	m := testenv.Must(s.Metadata())
	testenv.Same(t, "objects", len(m.Objects), 5)
}

// Times of the files that plantExcerpt writes.
const (
	excerptBegin  = 1_700_000_000_000_000
	excerptFrom   = excerptBegin + 1_300_000
	excerptSecond = excerptBegin + 2_000_000 // where the second file begins
	excerptEnd    = excerptBegin + 3_000_000
)

// A piece is the time of a sample.
type piece struct {
	goroutine  uint64
	function   string
	begin, end uint64
}

// excerptLabels are the labels that goroutines have with a number.
func excerptLabels(i int) map[string]string { return map[string]string{"n": fmt.Sprint(i)} }

// plantExcerpt writes two files, the second of which is being written until the test ends. Of 20 goroutines some are sampled rarely, and
// some begin in the excerpt. All have a sample of the first file in it.
func plantExcerpt(t *testing.T, paths []string) (pieces []piece) {
	random, last := rand.New(rand.NewPCG(1, 2)), map[uint64]uint64{}
	for i, start := range []uint64{excerptBegin, excerptSecond} {
		w := testenv.Closes(t, testenv.Must(writer.Create(paths[i], writer.Options{Start: start, Interval: 1000})))
		stop := []uint64{excerptSecond, excerptEnd}[i]
		for now := start + 1000; now <= stop; now += 1000 {
			for g := range uint64(20) {
				if g > 15 && now < excerptFrom+100_000 || now != excerptFrom+100_000 && random.IntN(1+int(g)*5) != 0 {
					continue
				}
				f := fmt.Sprintf("main.f%d", random.IntN(5))
				testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: g + 1, Time: now}, []tachyon.Frame{{Func: f}, {Func: "main.main"}}))
				if last[g] == 0 && g > 15 {
					last[g] = now - 5000
				} else if last[g] == 0 {
					last[g] = now - 1000
				}
				pieces = append(pieces, piece{g + 1, f, last[g], now})
				last[g] = now
			}
		}
		r := tachyon.Records{Objects: []tachyon.Object{{Number: 3, Kind: "channel", Capacity: int64(i)}}}
		for g := range uint64(20) {
			part := tachyon.Goroutine{ID: g + 1, Parent: 1, CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{From: 0, Labels: excerptLabels(0)}}}
			if i == 0 {
				part.Labels = append(part.Labels, tachyon.LabelSpan{From: 1_000_000, Labels: excerptLabels(1)}, tachyon.LabelSpan{From: 1_500_000, Labels: excerptLabels(0)})
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
		testenv.OK(t, errors.Join(w.WriteRecords(&r), w.Provisional(tachyon.KindSession, &tachyon.Session{PID: 7, Error: "the session was not stopped"})))
		if i == 0 {
			testenv.OK(t, errors.Join(w.AddMetadata(tachyon.KindSession, &tachyon.Session{PID: 7}), w.Close()))
		}
	}
	return pieces
}

// checkExcerpt compares a file with what the pieces have after excerptFrom and until to: the time of each goroutine and stack, also of
// those that are sampled only before and after it, creators, labels and objects.
func checkExcerpt(t *testing.T, path string, pieces []piece, to uint64) {
	const from = excerptFrom
	want, goroutines := map[string]uint64{}, map[uint64]bool{}
	for _, p := range pieces {
		if begin, end := max(p.begin, from), min(p.end, to); begin < end {
			want[fmt.Sprint(p.goroutine, p.function)] += end - begin
			goroutines[p.goroutine] = true
		}
	}
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	got := map[string]uint64{}
	for s := range plain(t, r) {
		got[fmt.Sprint(s.Thread, r.Frames()[s.Stack[0]].Func)] += s.Weight
		testenv.FailIf(t, s.Time <= from || s.Time > to || s.Time-s.Weight < from, "a sample at %d µs with a weight of %d µs", s.Time-from, s.Weight)
	}
	for k, v := range want {
		// Less than one and a half intervals count as one.
		testenv.Within(t, "µs of goroutine and function "+k, got[k], v-500, v+500)
	}
	m := testenv.Must(r.Metadata())
	s := m.Session
	testenv.Same(t, "sums and goroutines", fmt.Sprint(len(got), len(m.Goroutines)), fmt.Sprint(len(want), len(goroutines)))
	testenv.Same(t, "the session", fmt.Sprint(s.PID, s.Error, s.Samples, s.Duration, s.Start.UnixMicro()), fmt.Sprint(7, "", r.Header().Samples, reader.Micros(to-from), from))
	testenv.NoDiff(t, "objects", cmp.Diff([]tachyon.Object{{Number: 3, Kind: "channel", Capacity: int64(to / excerptEnd)}}, m.Objects))
	for _, g := range m.Goroutines {
		labels := []tachyon.LabelSpan{{Labels: excerptLabels(1)}, {From: excerptBegin + 1_500_000 - from, Labels: excerptLabels(0)}}
		if g.ID == 8 {
			labels = append(labels, tachyon.LabelSpan{From: excerptSecond - from, Labels: map[string]string{}})
		}
		labels = slices.DeleteFunc(labels, func(l tachyon.LabelSpan) bool { return from+l.From > to })
		testenv.NoDiff(t, fmt.Sprint("labels of ", g.ID), cmp.Diff(labels, g.Labels))
		testenv.Same(t, fmt.Sprint("goroutine ", g.ID), fmt.Sprint(g.CreatedBy, g.Parent, g.Last <= to-from), "main.main1 true")
	}
}

// TestExcerpt makes an excerpt of two files, and windows of the first one.
func TestExcerpt(t *testing.T) {
	dir := t.TempDir()
	paths, out := []string{filepath.Join(dir, "x.1.tach"), filepath.Join(dir, "x.2.tach")}, filepath.Join(dir, "out.tach")
	pieces, from := plantExcerpt(t, paths), time.UnixMicro(excerptFrom)
	testenv.OK(t, Excerpt(t.Context(), out, paths, from))
	checkExcerpt(t, out, pieces, excerptEnd)
	for _, us := range []uint64{20_000, 97_000, 250_000} {
		testenv.OK(t, Window(t.Context(), out, paths[0], from, from.Add(reader.Micros(us))))
		checkExcerpt(t, out, pieces, excerptFrom+us)
	}
	// Nothing is known of the time before the first file, and files of other sessions do not help.
	err := Excerpt(t.Context(), out, paths, time.UnixMicro(excerptBegin-1))
	testenv.Is(t, "before the session", err, ErrNoPast)
	testenv.Fails(t, "before the session", err, "begin")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	testenv.Is(t, "canceled", Excerpt(ctx, out, paths, from), gone)
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
		files = append(files, stream.File{Name: path, Stream: testenv.Closes(t, testenv.Must(reader.Open(path)))})
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
		in := testenv.Closes(t, testenv.Must(OpenAll(from, Options{})))
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
