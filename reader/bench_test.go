package reader_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/writer"
)

// benchmark reads all samples of a file b.N times and reports the cost of one.
func benchmark(b *testing.B, r *reader.Reader) {
	b.Helper()
	b.ReportAllocs()
	samples := 0
	for b.Loop() {
		depth := 0
		for s, err := range r.Samples() {
			if err != nil {
				b.Fatal(err)
			}
			depth += len(s.Stack)
			samples++
		}
		if depth == 0 {
			b.Fatal("no frames")
		}
	}
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
}

// BenchmarkBig reads 200,000 samples of 5 threads, 38.5 frames deep on
// average, compressed with zstd. CPython's own reader does 488,000 a second.
func BenchmarkBig(b *testing.B) {
	for _, folder := range []string{"document-v2", "cpython-3.15"} {
		b.Run(folder, func(b *testing.B) {
			r, err := reader.Open(filepath.Join(testdata, folder, "big.zstd.bin"))
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			benchmark(b, r)
		})
	}
}

// BenchmarkThreads reads the same samples as if they were of so many threads.
func BenchmarkThreads(b *testing.B) {
	for _, n := range []int{5, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchmark(b, bigWithThreads(b, n))
		})
	}
}

// BenchmarkOpen opens a file and reads its tables, 3000 frames.
func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		r, err := reader.Open(filepath.Join(testdata, "document-v2", "big.zstd.bin"))
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// bigWithThreads returns a file with two million samples of n threads, sampled
// in turn, whose stacks follow each other as those of big do.
func bigWithThreads(b *testing.B, n int) *reader.Reader {
	b.Helper()
	big, err := reader.Open(filepath.Join(testdata, "document-v2", "big.zstd.bin"))
	if err != nil {
		b.Fatal(err)
	}
	defer big.Close()
	streams := map[uint64][][]uint32{}
	for s, err := range big.Samples() {
		if err != nil {
			b.Fatal(err)
		}
		streams[s.Thread] = append(streams[s.Thread], slices.Clone(s.Stack))
	}
	stacks := slices.Collect(maps.Values(streams))

	path := filepath.Join(b.TempDir(), "threads.tach")
	w, err := writer.Create(path, writer.Options{Interval: 1000})
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range big.Frames() {
		w.Intern(f)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 2_000_000 {
		thread, tick := i%n, i/n
		stream := stacks[thread%len(stacks)]
		s := writer.Sample{
			Thread: uint64(thread + 1),
			Status: 3,
			Time:   uint64(tick*1000) + rnd.Uint64N(20),
			Stack:  stream[(tick+7*thread)%len(stream)],
		}
		if err := w.Write(&s); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	r, err := reader.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	return r
}
