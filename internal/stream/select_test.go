package stream_test

import (
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
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
	w, err := writer.New(&f, writer.Options{Start: start, Interval: 1000})
	testenv.OK(t, err)
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
	err = w.AddMetadata(tachyon.KindSession, session)
	if err == nil {
		err = w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{g, {ID: 8, FirstWeight: 4_000_000}}})
	}
	testenv.OK(t, err)
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
			if got := time.UnixMicro(int64(src.Header().Start)).Sub(begin); got != c.start {
				t.Errorf("%v of %d files begins at %v, want %v", &c.sel, len(files), got, c.start)
			}
			var wall, cpu time.Duration
			for range 2 {
				wall, cpu = 0, 0
				for s, err := range src.Samples() {
					testenv.OK(t, err)
					wall += s.Wall
					cpu += s.CPU()
					if !s.NotSeen && int64(s.Time-src.Header().Start) < 0 {
						t.Errorf("%v: a sample before the start", &c.sel)
					}
				}
			}
			want := c.wall
			if len(files) == 2 && c.sel.Empty() {
				want += second // not seen in each
			}
			if wall != want || cpu != c.cpu || src.Goroutines() != c.goroutines {
				t.Errorf("%v of %d files: %v, %v on CPU, %d goroutines; want %v, %v, %d", &c.sel, len(files), wall, cpu, src.Goroutines(), want, c.cpu, c.goroutines)
			}
			if m := src.Metadata().Session; m.Duration != c.end-c.start {
				t.Errorf("%v of %d files lasts %v, want %v", &c.sel, len(files), m.Duration, c.end-c.start)
			}
		}
	}
}

func TestSelectErrors(t *testing.T) {
	for _, text := range []string{"x", "10", "25:00", "2026-13-01T00:00:00"} {
		if _, err := stream.ParseMoment(text); err == nil {
			t.Errorf("%q is a moment", text)
		}
	}
	for _, text := range []string{"x", "=v"} {
		if _, err := stream.ParseLabel(text); err == nil {
			t.Errorf("%q is a label", text)
		}
	}
	since, _ := stream.ParseMoment("3s")
	until, _ := stream.ParseMoment("2s")
	if _, err := stream.New([]stream.File{plant(t, 0, 0, 4, true)}, stream.Options{Select: &stream.Selection{Since: since, Until: until}}); err == nil {
		t.Error("no error of a time that ends before it begins")
	}
}

// With Unselected, the other samples of the selected time are yielded too, but do not count.
func TestUnselected(t *testing.T) {
	since := testenv.Must(stream.ParseMoment("4s"))
	src, err := stream.New([]stream.File{plant(t, 1, 0, 8, true)}, stream.Options{
		Unselected: true, Select: &stream.Selection{States: []string{"running"}, Since: since},
	})
	testenv.OK(t, err)
	var wall [2]time.Duration
	for s, err := range src.Samples() {
		testenv.OK(t, err)
		if s.Unselected {
			wall[1] += s.Wall
		} else {
			wall[0] += s.Wall
		}
	}
	if wall != [2]time.Duration{2 * time.Second, 6 * time.Second} || src.Goroutines() != 1 {
		t.Errorf("%v of %d goroutines", wall, src.Goroutines())
	}
	if !src.Selects() || src.Limit() != 1<<64-1 {
		t.Errorf("%v, %d", src.Selects(), src.Limit())
	}
}

// What the quota took is that of the files that have selected time. If only a part of one is selected, it says of how much it is.
func TestSelectThrottled(t *testing.T) {
	for _, c := range []struct {
		since, until string
		throttled    time.Duration
		of           time.Duration
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
		if s := src.Metadata().Session; s.Throttled != c.throttled || s.ThrottledPeriods != int64(c.throttled/time.Millisecond) || s.ThrottledOf != c.of {
			t.Errorf("%q to %q: %v in %d periods of %v, want %v of %v", c.since, c.until, s.Throttled, s.ThrottledPeriods, s.ThrottledOf, c.throttled, c.of)
		}
	}
}
