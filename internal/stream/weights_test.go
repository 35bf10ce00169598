package stream_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

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
	for s, err := range src.Samples() {
		testenv.OK(t, err)
		key := fmt.Sprintf("%d/%d:", s.Goroutine, s.Interpreter)
		if s.First != (lines[key] == "") {
			t.Errorf("%s first %v", key, s.First)
		}
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
