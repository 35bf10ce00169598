package formats

import (
	"fmt"
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
		in := testenv.Must(OpenAll(paths, Options{}))
		defer in.Close()
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
	in := testenv.Must(OpenAll(paths, Options{}))
	defer in.Close()
	c := testenv.Must(testenv.Must(in.all()).Copy())
	testenv.NoDiff(t, "", cmp.Diff([][]reader.Thread{{{ID: 10}}, {{ID: 11}, {ID: 20}}, {{ID: 7}, {ID: 12}, {ID: 21}}}, c.Ended))
}

// Many files can be written as one file that has the same goroutines. That needs no temporary files. TestSource compares the samples.
func TestJoined(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	dir := t.TempDir()
	var paths []string
	for part := range uint64(3) {
		start := joinStart + part*100_000
		var samples []tachyon.Sample
		for at := start + 500; at < start+90_000; at += 7_000 {
			samples = append(samples, tachyon.Sample{Thread: 1 + at%3, Time: at})
		}
		path := filepath.Join(dir, fmt.Sprint(part, ".tach"))
		session := tachyon.Session{PID: int(part / 2), SessionStart: time.UnixMicro(joinStart), Part: int(part)*2 + 1}
		labels := []tachyon.LabelSpan{{From: 3, Labels: map[string]string{"part": fmt.Sprint(part)}}}
		partFile(t, path, session, start, 1000, samples,
			tachyon.Goroutine{ID: 1, FirstWeight: 12_345, Labels: labels}, tachyon.Goroutine{ID: 2, Parent: 1, FirstWeight: 77})
		paths = append(paths, path)
	}
	in := testenv.Must(OpenAll(paths, Options{}))
	defer in.Close()
	src := testenv.Must(in.all())
	c := testenv.Must(src.Copy())
	goroutines := map[uint64]*tachyon.Goroutine{}
	for g := range testenv.All(t, c.EachGoroutine()) {
		if one := goroutines[g.ID]; one != nil {
			one.Add(g)
		} else {
			goroutines[g.ID] = g
		}
	}
	out := written(t, dir, in)
	defer out.Close()
	h := out.Header()
	testenv.Same(t, "threads and goroutines", [2]int{int(h.Threads), src.Goroutines()}, [2]int{6, 6})
	m := testenv.Must(out.Metadata())
	for i := range m.Goroutines {
		g := &m.Goroutines[i]
		testenv.NoDiff(t, fmt.Sprint("goroutine ", g.ID), cmp.Diff(goroutines[g.ID], g))
	}
	if len(m.Goroutines) != 5 || len(goroutines) != 5 { // of goroutine 3 only the process is known, and of the first process nothing
		t.Errorf("%d goroutines, %d are written", len(goroutines), len(m.Goroutines))
	}
	testenv.Has(t, "verified", testenv.Must(in.Verify()), fmt.Sprintf("3 files, %d samples of 6 goroutines", h.Samples))
	testenv.Within(t, "facts", len(testenv.Must(in.Info())), 10, 100)
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
		in := testenv.Must(OpenAll(paths, Options{}))
		defer in.Close()
		src := testenv.Must(in.Source(stream.Options{Labels: true}))
		sums := map[string]int64{}
		for s := range testenv.All(t, src.Samples()) {
			v, _ := src.Label(s.Labels, key)
			sums[v] += s.Wall.Milliseconds()
		}
		return sums
	}
	all := filepath.Join(dir, "all.tach")
	in := testenv.Must(OpenAll(paths, Options{}))
	defer in.Close()
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
		if _, ok := objects[o.Number]; ok {
			t.Errorf("two objects have the number %d", o.Number)
		}
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
	in := testenv.Must(OpenAll([]string{name("1"), name("2"), name("other")}, Options{}))
	defer in.Close()
	s := written(t, dir, in)
	defer s.Close()
	want := []string{"main.a a", "main.a a", "main.b b", "main.b b", "main.c c", "main.d d", "main.set set+a+b"}
	testenv.NoDiff(t, "", cmp.Diff(want, waitedFor(t, s)))
	m := testenv.Must(s.Metadata())
	testenv.Same(t, "objects", len(m.Objects), 5)
}
