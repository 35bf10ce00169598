package reader_test

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const weightStart = 1_000_000

// A timed is a sample without a stack.
type timed struct {
	thread      uint64
	interpreter uint32
	at          uint64 // µs since the start
	cpu         bool
}

// timedFile returns a file with samples, one each 1000 µs as asked for, and metadata.
func timedFile(t *testing.T, samples []timed, session *tachyon.Session, goroutines []tachyon.Goroutine) *reader.Reader {
	t.Helper()
	return openBytes(t, written(t, writer.Options{Start: weightStart, Interval: 1000}, func(w *writer.Writer) error {
		for _, s := range samples {
			sample := tachyon.Sample{Thread: s.thread, Interpreter: s.interpreter, Time: weightStart + s.at}
			if s.cpu {
				sample.Status = tachyon.OnCPU
			}
			if err := w.Write(&sample); err != nil {
				return err
			}
		}
		if session != nil {
			if err := w.AddMetadata(tachyon.KindSession, session); err != nil {
				return err
			}
		}
		return w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": goroutines})
	}))
}

// weights returns a line for each thread, in the order of ids: its weights in µs, with c for the CPU
// and m for a marker. It checks that threads are numbered by their first samples.
func weights(t *testing.T, list iter.Seq2[*reader.WeightedSample, error]) string {
	t.Helper()
	index, line := map[string]int{}, map[string]string{}
	for s, err := range list {
		testenv.OK(t, err)
		key := fmt.Sprintf("%d/%d:", s.Thread, s.Interpreter)
		n, seen := index[key]
		if !seen {
			n = len(index)
			index[key] = n
		}
		if s.First == seen || s.Index != n {
			t.Errorf("thread %s has index %d, first %v; want %d, %v", key, s.Index, s.First, n, !seen)
		}
		kind := map[bool]string{true: "m"}[s.Marker]
		if s.Status&tachyon.OnCPU != 0 {
			kind = "c"
		}
		if want := map[bool]time.Duration{true: s.Wall()}[kind == "c"]; s.CPU() != want {
			t.Errorf("%v on CPU, want %v", s.CPU(), want)
		}
		line[key] += fmt.Sprint(" ", s.Weight, kind)
	}
	var b strings.Builder
	for thread := range uint64(10) {
		for interpreter := range 3 {
			for _, id := range []uint64{thread, thread + tachyon.FirstPseudo} {
				if key := fmt.Sprintf("%d/%d:", id, interpreter); line[key] != "" {
					b.WriteString(key + line[key] + "\n")
				}
			}
		}
	}
	return b.String()
}

// TestWeighted reads a file with every case that affects a weight.
func TestWeighted(t *testing.T) {
	far := uint64(1) << 63
	r := timedFile(t, []timed{
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
	}, nil, []tachyon.Goroutine{{ID: 2, FirstWeight: 70}, {ID: 4}, {ID: 5, FirstWeight: 1 << 40}, {ID: 6, FirstWeight: 3}})
	want := fmt.Sprintf("1/0: 1000c 2000c 0 0c 50c\n2/0: 70 1c\n2/1: 1000\n3/0: 1000 10\n4/0: 1000c\n5/0: %d %dc %d 0c\n", 1<<40, far-1, far-1)
	for range 2 { // Weighted starts from the beginning each time
		testenv.NoDiff(t, "weights", cmp.Diff(want, weights(t, reader.Weighted(r))))
	}
	if got, want := (&reader.WeightedSample{Weight: far - 1}).Wall(), time.Duration(1<<63-1)/time.Microsecond*time.Microsecond; got != want {
		t.Errorf("the longest weight is %v, want %v", got, want)
	}
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
	all := fmt.Sprintf("%d/2: 1000 1300c 200 600c\n1/0: 300 1000c\n5/1: 700 400 500c 1000 100c\n6/1: 1000\n", pseudo)
	for name, c := range map[string]struct {
		session         *tachyon.Session
		counted, marked string
	}{
		"another program's file":     {nil, all, all},
		"a file of an early version": {&tachyon.Session{Program: "x", System: true}, all, all},
		"the runtime's CPU": {&tachyon.Session{Markers: true},
			fmt.Sprintf("%d/2: 1300c 600c\n1/0: 300 1000c\n5/1: 500c 100c\n", pseudo),
			fmt.Sprintf("%d/2: 1000m 1300c 200m 600c\n1/0: 300 1000c\n5/1: 700m 400m 500c 1000m 100c\n6/1: 1000m\n", pseudo)},
		"the runtime's waits": {&tachyon.Session{Markers: true, System: true},
			fmt.Sprintf("%d/2: 1300c 600c\n1/0: 300 1000c\n5/1: 700 400 500c 1000 100c\n6/1: 1000\n", pseudo),
			fmt.Sprintf("%d/2: 1000m 1300c 200m 600c\n1/0: 300 1000c\n5/1: 700 400 500c 1000 100c\n6/1: 1000\n", pseudo)},
	} {
		r := timedFile(t, samples, c.session, []tachyon.Goroutine{{ID: 5, FirstWeight: 700}, {ID: 1, FirstWeight: 300}})
		testenv.NoDiff(t, fmt.Sprintf("%s: Weighted", name), cmp.Diff(c.counted, weights(t, reader.Weighted(r))))
		if d := cmp.Diff(c.marked, weights(t, reader.WithMarkers(r))); d != "" {
			t.Errorf("%s: WithMarkers (-want +got):\n%s", name, d)
		}
	}
}

// An error of Samples ends Weighted with the same error.
func TestWeightedBroken(t *testing.T) {
	r := open(t, filepath.Join(testdata, "bad", "delta_cut.bin"))
	samples, plain := collect(r)
	n, weighted := 0, error(nil)
	for _, err := range reader.Weighted(r) {
		if weighted = err; err == nil {
			n++
		}
	}
	var format *reader.FormatError
	if !errors.As(weighted, &format) || weighted.Error() != plain.Error() || len(samples) != n {
		t.Errorf("%d samples and then %v, weighted %d and then %v", len(samples), plain, n, weighted)
	}
}
