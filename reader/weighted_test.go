package reader_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// TestWeighted reads a file with every case that affects a weight.
func TestWeighted(t *testing.T) {
	const start = 1_000_000
	var f testenv.File
	w, err := writer.New(&f, writer.Options{Start: start, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	far := uint64(1) << 63
	for _, s := range []struct {
		thread      uint64
		interpreter uint32
		at          uint64 // µs since start
		cpu         bool
	}{
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
	} {
		sample := tachyon.Sample{Thread: s.thread, Interpreter: s.interpreter, Time: start + s.at}
		if s.cpu {
			sample.Status = tachyon.OnCPU
		}
		if err := w.Write(&sample); err != nil {
			t.Fatal(err)
		}
	}
	list := []tachyon.Goroutine{{ID: 2, FirstWeight: 70}, {ID: 4}, {ID: 5, FirstWeight: 1 << 40}, {ID: 6, FirstWeight: 3}}
	if err := w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": list}); err != nil {
		t.Fatal(err)
	}
	r := testenv.Finish(t, &f, w, reader.New)

	type weight struct {
		thread      uint64
		interpreter uint32
		weight      uint64
		cpu         time.Duration
		index       int
		first       bool
	}
	const us = time.Microsecond
	longest := time.Duration(1<<63-1) / us * us
	byThread := map[[2]uint64][]weight{}
	for range 2 { // Weighted starts from the beginning each time
		clear(byThread)
		for s, err := range reader.Weighted(r) {
			if err != nil {
				t.Fatal(err)
			}
			k := [2]uint64{s.Thread, uint64(s.Interpreter)}
			byThread[k] = append(byThread[k], weight{s.Thread, s.Interpreter, s.Weight, s.CPU(), s.Index, s.First})
		}
	}
	index := map[[2]uint64]int{}
	for s, err := range r.Samples() { // threads are numbered by their first samples
		if err != nil {
			t.Fatal(err)
		}
		if k := [2]uint64{s.Thread, uint64(s.Interpreter)}; len(index) == index[k] || byThread[k][0].index == len(index) {
			index[k] = byThread[k][0].index
		}
	}
	if len(index) != 6 {
		t.Errorf("%d threads in order, want 6", len(index))
	}
	at := func(thread uint64, interpreter uint32) int { return index[[2]uint64{thread, uint64(interpreter)}] }
	want := map[[2]uint64][]weight{
		{1, 0}: {
			{1, 0, 1000, 1000 * us, at(1, 0), true}, {1, 0, 2000, 2000 * us, at(1, 0), false}, {1, 0, 0, 0, at(1, 0), false},
			{1, 0, 0, 0, at(1, 0), false}, {1, 0, 50, 50 * us, at(1, 0), false},
		},
		{2, 0}: {{2, 0, 70, 0, at(2, 0), true}, {2, 0, 1, us, at(2, 0), false}},
		{2, 1}: {{2, 1, 1000, 0, at(2, 1), true}},
		{3, 0}: {{3, 0, 1000, 0, at(3, 0), true}, {3, 0, 10, 0, at(3, 0), false}},
		{4, 0}: {{4, 0, 1000, 1000 * us, at(4, 0), true}},
		{5, 0}: {
			{5, 0, 1 << 40, 0, at(5, 0), true}, {5, 0, far - 1, longest, at(5, 0), false},
			{5, 0, far - 1, 0, at(5, 0), false}, {5, 0, 0, 0, at(5, 0), false},
		},
	}
	if d := cmp.Diff(want, byThread, cmp.AllowUnexported(weight{})); d != "" {
		t.Errorf("weights (-want +got):\n%s", d)
	}
}

// An error of Samples ends Weighted with the same error.
func TestWeightedBroken(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata, "bad", "delta_cut.bin"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := reader.New(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	samples, weights := 0, 0
	var plain, weighted error
	for _, err := range r.Samples() {
		if plain = err; err == nil {
			samples++
		}
	}
	for _, err := range reader.Weighted(r) {
		if weighted = err; err == nil {
			weights++
		}
	}
	var format *reader.FormatError
	if !errors.As(weighted, &format) || weighted.Error() != plain.Error() || samples != weights {
		t.Errorf("%d samples and then %v, weighted %d and then %v", samples, plain, weights, weighted)
	}
}

// BenchmarkWeighted is BenchmarkBig with weights.
func BenchmarkWeighted(b *testing.B) {
	r, err := reader.Open(filepath.Join(testdata, "document-v2", "big.zstd.bin"))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	samples, sum := 0, uint64(0)
	for b.Loop() {
		for s, err := range reader.Weighted(r) {
			if err != nil {
				b.Fatal(err)
			}
			samples++
			sum += s.Weight
		}
	}
	if sum == 0 {
		b.Fatal("no time")
	}
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
}
