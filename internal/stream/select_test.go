package stream_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// begin is 14:30:24 UTC.
var begin = time.Date(2026, 11, 21, 14, 30, 24, 0, time.UTC)

// plant writes a file of some seconds from a second on. Goroutine 7 runs in even seconds, with the label
// handler=/a, and sleeps in odd ones, with handler=/b. Goroutine 8 waits all the time; it has one sample every
// four seconds.
func plant(t *testing.T, part, from, seconds int, stopped bool) stream.File {
	t.Helper()
	start := uint64(begin.UnixMicro()) + uint64(from)*1_000_000
	var f testenv.File
	w := testenv.Must(writer.New(&f, writer.Options{Start: start, Interval: 1000}))
	work := tachyon.Frame{File: "/src/main.go", Func: "main.work", Line: 7}
	g := tachyon.Goroutine{ID: 7, FirstWeight: 250_000}
	add := func(id, at uint64, s tachyon.Status, stack ...tachyon.Frame) {
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: id, Time: start + at, Status: s}, stack))
	}
	for i := range 4 * seconds {
		at := uint64(i+1) * 250_000
		if second := from + i/4; second%2 == 0 {
			add(7, at, tachyon.HasGIL|tachyon.OnCPU, work)
			g.Labels = append(g.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{"handler": "/a", "k": "v"}})
		} else {
			add(7, at, 0, tachyon.Frame{Func: "[sleep]"}, work)
			g.Labels = append(g.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{"handler": "/b"}})
		}
	}
	for at := 4; at <= seconds; at += 4 {
		add(8, uint64(at)*1_000_000, 0, tachyon.Frame{Func: "[IO wait]"}, work)
	}
	session := tachyon.Session{Source: "native", Markers: true, Start: time.UnixMicro(int64(start)), PID: 1, Part: part, SessionStart: begin}
	session.NotSeen, session.Throttled, session.ThrottledPeriods = time.Second, time.Duration(seconds)*time.Millisecond, int64(seconds)
	if stopped {
		session.Duration = time.Duration(seconds) * time.Second
	}
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, session))
	testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{g, {ID: 8, FirstWeight: 4_000_000}}}))
	return stream.File{Stream: testenv.Finish(t, &f, w, reader.New)}
}

// A selection has the time of the samples that it says, also where a sample is partly in it.
func TestSelect(t *testing.T) {
	label := func(text string) stream.Label { return testenv.Must(stream.ParseLabel(text)) }
	moment := func(text string) stream.Moment { return testenv.Must(stream.ParseMoment(text)) }
	second := time.Second
	for _, c := range []struct {
		sel        stream.Selection
		wall, cpu  time.Duration
		goroutines int
		start, end time.Duration // of what is selected, since the start
	}{
		{stream.Selection{}, 17 * second, 4 * second, 2, 0, 8 * second}, // 1 s was not seen
		{stream.Selection{Labels: []stream.Label{label("handler=/a")}}, 4 * second, 4 * second, 1, 0, 8 * second},
		{stream.Selection{Labels: []stream.Label{label("handler=/b")}}, 4 * second, 0, 1, 0, 8 * second},
		{stream.Selection{Labels: []stream.Label{label("handler=/b"), label("k=v")}}, 0, 0, 0, 0, 8 * second},
		{stream.Selection{States: []string{"Sleep"}}, 4 * second, 0, 1, 0, 8 * second},
		{stream.Selection{States: []string{"[sleep]", "IO wait"}}, 12 * second, 0, 2, 0, 8 * second},
		{stream.Selection{States: []string{"Blocked"}}, 12 * second, 0, 2, 0, 8 * second},
		{stream.Selection{States: []string{"I/O", "on CPU"}}, 12 * second, 4 * second, 2, 0, 8 * second},
		{stream.Selection{Goroutines: []uint64{8}}, 8 * second, 0, 1, 0, 8 * second},
		{stream.Selection{Since: moment("3500ms")}, 9 * second, 2 * second, 2, 3500 * time.Millisecond, 8 * second},
		{stream.Selection{Since: moment("-2s")}, 4 * second, second, 2, 6 * second, 8 * second},
		{stream.Selection{Since: moment("1s"), Until: moment("-4500ms")}, 5 * second, second, 2, second, 3500 * time.Millisecond},
		{stream.Selection{Since: moment("2100ms"), Until: moment("2200ms")}, 200 * time.Millisecond, 100 * time.Millisecond, 2, 2100 * time.Millisecond, 2200 * time.Millisecond},
		{stream.Selection{Until: moment(begin.Add(3 * second).Local().Format("15:04:05"))}, 6 * second, 2 * second, 2, 0, 3 * second},
		{stream.Selection{Since: moment(begin.Add(7 * second).Format(time.RFC3339)), Goroutines: []uint64{7}}, second, 0, 1, 7 * second, 8 * second},
	} {
		// One file, and two of which the second was not stopped.
		for _, files := range [][]stream.File{{plant(t, 0, 0, 8, true)}, {plant(t, 1, 0, 4, true), plant(t, 2, 4, 4, false)}} {
			src := testenv.Must(stream.New(files, stream.Options{Select: &c.sel}))
			testenv.Same(t, fmt.Sprintf("%v of %d files begins at", &c.sel, len(files)), time.UnixMicro(int64(src.Header().Start)).Sub(begin), c.start)
			var wall, cpu time.Duration
			for range 2 {
				wall, cpu = 0, 0
				for s := range testenv.All(t, src.Samples()) {
					wall += s.Wall
					cpu += s.CPU()
					testenv.FailIf(t, !s.NotSeen && int64(s.Time-src.Header().Start) < 0, "%v: a sample before the start", &c.sel)
				}
			}
			want := c.wall
			if len(files) == 2 && c.sel.Empty() {
				want += second // not seen in each
			}
			got := fmt.Sprint(wall, cpu, src.Goroutines(), src.Metadata().Session.Duration)
			testenv.Same(t, fmt.Sprintf("%v of %d files: time, CPU time, goroutines, duration", &c.sel, len(files)), got, fmt.Sprint(want, c.cpu, c.goroutines, c.end-c.start))
		}
	}
}

func TestSelectErrors(t *testing.T) {
	for _, text := range []string{"x", "10", "25:00", "2026-13-01T00:00:00"} {
		testenv.Fails(t, text, testenv.Err(stream.ParseMoment(text)), "is no time")
	}
	for _, text := range []string{"x", "=v"} {
		testenv.Fails(t, text, testenv.Err(stream.ParseLabel(text)), "does not have the form KEY=VALUE")
	}
	since, _ := stream.ParseMoment("3s")
	until, _ := stream.ParseMoment("2s")
	_, err := stream.New([]stream.File{plant(t, 0, 0, 4, true)}, stream.Options{Select: &stream.Selection{Since: since, Until: until}})
	testenv.Same(t, "an error of a time that ends before it begins", err != nil, true)
}

// With Unselected, the other samples of the selected time are yielded too, but do not count.
func TestUnselected(t *testing.T) {
	since := testenv.Must(stream.ParseMoment("4s"))
	sel := stream.Selection{States: []string{"running"}, Since: since}
	src := testenv.Must(stream.New([]stream.File{plant(t, 1, 0, 8, true)}, stream.Options{Unselected: true, Select: &sel}))
	var wall [2]time.Duration
	for s := range testenv.All(t, src.Samples()) {
		if s.Unselected {
			wall[1] += s.Wall
		} else {
			wall[0] += s.Wall
		}
	}
	testenv.FailIf(t, wall != [2]time.Duration{2 * time.Second, 6 * time.Second} || src.Goroutines() != 1, "%v of %d goroutines", wall, src.Goroutines())
	testenv.FailIf(t, !src.Selects() || src.Limit() != 1<<64-1, "%v, %d", src.Selects(), src.Limit())
}

// What the quota took is that of the files that have selected time. If only a part of one is selected, it says of how much it is.
func TestSelectThrottled(t *testing.T) {
	for _, c := range []struct {
		since, until  string
		throttled, of time.Duration
	}{
		{"", "4s", 4 * time.Millisecond, 0},
		{"4s", "", 8 * time.Millisecond, 0},
		{"", "12s", 12 * time.Millisecond, 0},
		{"1s", "", 12 * time.Millisecond, 12 * time.Second},
		{"5s", "6s", 8 * time.Millisecond, 8 * time.Second},
		{"3s", "4s", 4 * time.Millisecond, 4 * time.Second},
	} {
		sel := stream.Selection{Since: testenv.Must(stream.ParseMoment(c.since)), Until: testenv.Must(stream.ParseMoment(c.until))}
		src := testenv.Must(stream.New([]stream.File{plant(t, 1, 0, 4, true), plant(t, 2, 4, 8, true)}, stream.Options{Select: &sel}))
		s := src.Metadata().Session
		testenv.Same(t, c.since+" to "+c.until, fmt.Sprint(s.Throttled, s.ThrottledPeriods, s.ThrottledOf), fmt.Sprint(c.throttled, c.throttled.Milliseconds(), c.of))
	}
}

// A timed is a sample without a stack.
type timed struct {
	thread      uint64
	interpreter uint32
	at          uint64 // µs since the start
	cpu         bool
}

// weights writes samples, one each 1000 µs as asked for, and returns a line for each thread in the order of their ids:
// its weights in µs, with c for the CPU and m for a marker.
func weights(t *testing.T, samples []timed, session *tachyon.Session, goroutines []tachyon.Goroutine, markers bool) (text string) {
	t.Helper()
	const start = 1_000_000
	file := &testenv.File{}
	w := testenv.Must(writer.New(file, writer.Options{Start: start, Interval: 1000}))
	for _, s := range samples {
		sample := tachyon.Sample{Thread: s.thread, Interpreter: s.interpreter, Time: start + s.at}
		if s.cpu {
			sample.Status = tachyon.OnCPU
		}
		testenv.OK(t, w.Write(&sample))
	}
	if session != nil {
		testenv.OK(t, w.AddMetadata(tachyon.KindSession, session))
	}
	testenv.OK(t, w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": goroutines}))
	testenv.OK(t, w.Close())
	src := testenv.Must(stream.New([]stream.File{{Stream: testenv.Must(reader.New(bytes.NewReader(file.Bytes)))}}, stream.Options{Markers: markers}))
	lines := map[string]string{}
	for s := range testenv.All(t, src.Samples()) {
		key := fmt.Sprintf("%d/%d:", s.Goroutine, s.Interpreter)
		testenv.Same(t, fmt.Sprintf("%s first", key), s.First, lines[key] == "")
		kind := map[bool]string{true: "m"}[s.Marker]
		if s.CPU() > 0 || s.Status&tachyon.OnCPU != 0 {
			kind = "c"
		}
		lines[key] += fmt.Sprint(" ", s.Wall.Microseconds(), kind)
	}
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		text += key + lines[key] + "\n"
	}
	return text
}

// A file with every case that affects a weight.
func TestWeights(t *testing.T) {
	far := uint64(1) << 63
	got := weights(t, []timed{
		{1, 0, 500, true},             // a first sample: one interval, although that begins before the file
		{1, 0, 2500, true},            // 2000 µs later
		{2, 0, 3000, false},           // a first sample with a weight in the metadata
		{1, 0, 2500, false},           // the same time: weight 0
		{2, 1, 3000, false},           // the same id in another interpreter: one interval
		{1, 0, 2400, true},            // the clock went back: weight 0
		{1, 0, 2450, true},            // the time since the sample before, at 2400
		{2, 0, 3001, true},            // samples of another thread came between
		{3, 0, ^uint64(0), false},     // before the start
		{3, 0, 9, false},              // 10 µs later: times wrap
		{4, 0, 1, true},               // 0 in the metadata means one interval
		{5, 0, 1, false},              // a weight that begins long before the start
		{5, 0, far, true},             // just under 2^63 µs forward
		{5, 0, 2*far - 1, false},      // the same difference
		{5, 0, 2*far - 1 + far, true}, // 2^63 µs: that counts as back
	}, nil, []tachyon.Goroutine{{ID: 2, FirstWeight: 70}, {ID: 4}, {ID: 5, FirstWeight: 1 << 40}, {ID: 6, FirstWeight: 3}}, true)
	longest := int64(1<<63-1) / 1000
	want := fmt.Sprintf("1/0: 1000c 2000c 0 0c 50c\n2/0: 70 1c\n2/1: 1000\n3/0: 1000 10\n4/0: 1000c\n5/0: %d %dc %d 0c\n", 1<<40, longest, longest)
	testenv.NoDiff(t, "weights", cmp.Diff(want, got))
}

// Samples of the runtime's goroutines and of no goroutine count as the session says.
func TestMarkers(t *testing.T) {
	const pseudo = tachyon.FirstPseudo
	samples := []timed{
		{5, tachyon.Runtime, 1000, false}, // waits first
		{1, 0, 1000, false},
		{pseudo, tachyon.Process, 1000, false},
		{5, tachyon.Runtime, 1400, false}, // still waits
		{5, tachyon.Runtime, 1900, true},
		{6, tachyon.Runtime, 2000, false}, // never uses a CPU
		{1, 0, 2000, true},
		{pseudo, tachyon.Process, 2300, true},
		{pseudo, tachyon.Process, 2500, false},
		{5, tachyon.Runtime, 2900, false},
		{5, tachyon.Runtime, 3000, true},
		{pseudo, tachyon.Process, 3100, true},
	}
	all := fmt.Sprintf("1/0: 300 1000c\n%d/2: 1000 1300c 200 600c\n5/1: 700 400 500c 1000 100c\n6/1: 1000\n", pseudo)
	for name, c := range map[string]struct {
		session         *tachyon.Session
		counted, marked string
	}{
		"another program's file":     {nil, all, all},
		"a file of an early version": {&tachyon.Session{Program: "x", System: true}, all, all},
		"the runtime's CPU": {&tachyon.Session{Markers: true},
			fmt.Sprintf("1/0: 300 1000c\n%d/2: 1300c 600c\n5/1: 500c 100c\n", pseudo),
			fmt.Sprintf("1/0: 300 1000c\n%d/2: 1000m 1300c 200m 600c\n5/1: 700m 400m 500c 1000m 100c\n6/1: 1000m\n", pseudo)},
		"the runtime's waits": {&tachyon.Session{Markers: true, System: true},
			fmt.Sprintf("1/0: 300 1000c\n%d/2: 1300c 600c\n5/1: 700 400 500c 1000 100c\n6/1: 1000\n", pseudo),
			fmt.Sprintf("1/0: 300 1000c\n%d/2: 1000m 1300c 200m 600c\n5/1: 700 400 500c 1000 100c\n6/1: 1000\n", pseudo)},
	} {
		for markers, want := range map[bool]string{false: c.counted, true: c.marked} {
			got := weights(t, samples, c.session, []tachyon.Goroutine{{ID: 5, FirstWeight: 700}, {ID: 1, FirstWeight: 300}}, markers)
			testenv.NoDiff(t, fmt.Sprintf("%s, with markers %v", name, markers), cmp.Diff(want, got))
		}
	}
}
