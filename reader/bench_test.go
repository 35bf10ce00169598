package reader_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// benchmark reads all samples of a file b.N times and reports the cost of one sample. The
// clock starts after the first before samples.
func benchmark(b *testing.B, r *reader.Reader, before int) {
	b.Helper()
	b.ReportAllocs()
	samples := 0
	for b.Loop() {
		if before > 0 {
			b.StopTimer()
		}
		depth, n := 0, 0
		for s, err := range r.Samples() {
			if err != nil {
				b.Fatal(err)
			}
			depth += len(s.Stack)
			if n++; n == before {
				b.StartTimer()
			}
		}
		samples += n - before
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
			benchmark(b, r, 0)
		})
	}
}

// BenchmarkThreads reads the same samples as samples of many threads. The clock starts when
// all threads are known: a thread's first record has a whole stack, later records have two
// frames on average. With 100,000 threads of 20 samples each, first records would triple
// the number of frames compared with 5 threads.
func BenchmarkThreads(b *testing.B) {
	for _, n := range []int{5, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const before = 1_000_000 // ten samples of each thread
			benchmark(b, bigWithThreads(b, n, before+2_000_000), before)
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

// bigWithThreads returns a file with the given number of samples of n threads, sampled in
// turns. The stacks of each thread have the same sequence as in the golden file big.
func bigWithThreads(b *testing.B, n, samples int) *reader.Reader {
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
	for i := range samples {
		thread, tick := i%n, i/n
		stream := stacks[thread%len(stacks)]
		s := tachyon.Sample{
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
